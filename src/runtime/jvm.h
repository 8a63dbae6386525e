// What the Java virtual machine wants to know before it runs something: how a source file must be called, and which of
// the class files has the entry point. Both read hostile text and bytes, bounded, without interpreting more than that.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/compile_step.h"

namespace sbx::runtime {

// "Hello.java" when the Java text declares a public class (interface, enum, record) Hello: javac insists on it. `name`
// when it declares none. Comments, strings and what stands in braces are skipped.
std::string java_source_name(std::string_view text, const std::string& name);

// What of a class file matters here.
struct ClassFile {
  std::string name;           // "pkg.Hello"
  std::string source;         // its SourceFile attribute: "Hello.java"; "" : none
  bool has_main = false;      // public static void main(String[])
  bool has_instance_main = false;  // any other void main() or main(String[]), as Java 25 and newer start them
};
// Errors: policy when the bytes are no class file.
Result<ClassFile> parse_class_file(std::string_view bytes);

// The name of the class to start: of those with an entry point the one called `stem`, then `stem`Kt and "Main", then
// the first by name. Error: not_found.
Result<std::string> jvm_main_class(std::span<const Product> products, const std::string& stem);

}  // namespace sbx::runtime
