from escape import Attack, Control

CASE = Attack("make a 32-bit system call by int 0x80", "19", "filter: killed", ["int80"], answers="killed",
              control=Control("bare namespaces, no filter", how="namespaces", answers="ok|EFAULT"), needs="x86_64")
