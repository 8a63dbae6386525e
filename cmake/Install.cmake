# cmake --install BUILD --prefix DIR [--strip]: the program, its documents and the licences that travel with it.
include(GNUInstallDirs)
install(TARGETS sbx RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
set(documents README.md CHANGELOG.md SECURITY.md LICENSE THIRD_PARTY_NOTICES.md)
foreach(document IN LISTS documents)
  install(FILES ${document} DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
endforeach()
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN "*.md" PATTERN "*.txt" PATTERN "*.json")
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples USE_SOURCE_PERMISSIONS)
