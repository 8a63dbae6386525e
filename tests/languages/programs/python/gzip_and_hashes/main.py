"""Compresses, packs and hashes with the standard library, in memory and in files."""
import gzip
import hashlib
import io
import tarfile
import tempfile
import zlib
from pathlib import Path

text = "\n".join(f"{n}: the quick brown fox" for n in range(20000)).encode()
packed = gzip.compress(text, mtime=0)
assert gzip.decompress(packed) == text
print("gzip made it at least ten times smaller:", len(packed) * 10 < len(text))
print("crc32", format(zlib.crc32(text), "08x"), "sha256", hashlib.sha256(text).hexdigest()[:16])

with tempfile.TemporaryDirectory() as folder:
    archive = Path(folder, "a.tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("one.txt", "two/three.txt"):
            data = name.encode() * 3
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(folder)
        print(tar.getnames())
    print(Path(folder, "two", "three.txt").read_text())
