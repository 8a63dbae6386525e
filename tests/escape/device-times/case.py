from escape import Attack, Control

CASE = Attack("change the times or the mode of the host's device nodes, which every sandbox sees", "28, 51", "they are mounted read-only", program=[""],
              answers="EROFS|EPERM|EACCES|ENOENT|ENOTSUP", special={"writing to null": "ok"}, control=Control("writing to the device itself", tries=["writing to null"]))
