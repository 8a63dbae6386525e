from escape import Attack, Control, FILTERED

CASE = Attack("switch address randomisation off before executing something", "55", "filter (test of personality's argument)", ["personality"], answers=FILTERED,
              control=Control("bare namespaces, no filter", how="namespaces"))
