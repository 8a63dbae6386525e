# docker build -t sbx .                                      Debian with sbx and the toolchains of TOOLCHAINS
# docker build -t sbx --build-arg TOOLCHAINS="python3 g++" .
# docker build --target files --output dist .                the program and its documents alone, on this machine
#
# What a container of it needs to be started with stands in docs/install.md: no instruction here could grant it.
ARG BASE=debian:12

FROM ${BASE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /source
# First what the build needs, so that a change of the source does not install it again.
COPY tools/install-deps.sh tools/
RUN tools/install-deps.sh build && rm -rf /var/lib/apt/lists/*
COPY . .
RUN make install PREFIX=/usr/local DESTDIR=/files

FROM scratch AS files
COPY --from=build /files/ /

FROM ${BASE}
ARG TOOLCHAINS=python3
RUN apt-get update && apt-get install -y --no-install-recommends ${TOOLCHAINS} && rm -rf /var/lib/apt/lists/*
COPY --from=build /files/ /
WORKDIR /project
ENTRYPOINT ["/usr/local/bin/sbx"]
CMD ["doctor"]
