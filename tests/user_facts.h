// A host as an ordinary user finds it, made up.
#pragma once

#include "policy/host_facts.h"

inline sbx::HostFacts facts_of_a_user() {
  sbx::HostFacts facts;
  facts.uid = facts.gid = 1001;
  facts.landlock_abi = 6;
  facts.home = "/home/user";
  facts.other_homes = {"/home/user", "/home/other"};
  return facts;
}
