#include <doctest/doctest.h>

#include "base/sys.h"
#include "runtime/jvm.h"

using namespace sbx;
using namespace sbx::runtime;

namespace {

std::string u16(unsigned value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }
std::string u32(unsigned value) { return u16(value >> 16) + u16(value & 0xffff); }
std::string text_constant(const std::string& text) { return "\x01" + u16(static_cast<unsigned>(text.size())) + text; }

// A class with one method `main` of the given access and descriptor.
std::string class_file(const std::string& name, const std::string& source, unsigned access, const std::string& descriptor) {
  std::string bytes = u32(0xCAFEBABE) + u32(61) + u16(11);
  bytes += text_constant(name);                       // 1
  bytes += "\x07" + u16(1);                           // 2
  bytes += "\x05" + std::string(8, 'x');              // 3, 4
  bytes += text_constant("main");                     // 5
  bytes += text_constant(descriptor);                 // 6
  bytes += text_constant("SourceFile");               // 7
  bytes += text_constant(source);                     // 8
  bytes += text_constant("Code");                     // 9
  bytes += "\x0f" + std::string("\x06", 1) + u16(2);  // 10
  bytes += u16(0x21) + u16(2) + u16(0) + u16(1) + u16(2);  // access, this, super, one interface
  bytes += u16(0);                                         // fields
  bytes += u16(1) + u16(access) + u16(5) + u16(6) + u16(1) + u16(9) + u32(3) + "abc";
  return bytes + u16(1) + u16(7) + u32(2) + u16(8);
}

Product product(const std::string& name, const std::string& content) {
  Product made;
  made.name = name;
  made.content = sys::memfd_create("test").take();
  REQUIRE(sys::write_all(made.content.get(), content).ok());
  return made;
}

}  // namespace

TEST_CASE("a Java file is called like its public class") {
  CHECK(java_source_name("public class Hello {}", "Main.java") == "Hello.java");
  CHECK(java_source_name("// public class No {}\n/* public class No {} */ import a.b;\n"
                         "@A(x = \"public class No {\") public final class Yes { public static class Inner {} }",
                         "x.java") == "Yes.java");
  CHECK(java_source_name("class A { String s = \"}\"; public class B {} }\npublic record Punkt(int x) {}", "x") == "Punkt.java");
  CHECK(java_source_name("class A { public class B {} }", "x.java") == "x.java");
  CHECK(java_source_name("var s = \"\"\"\n public class X \"\"\"; class A {}", "x.java") == "x.java");
  CHECK(java_source_name("public class Größe {}", "x.java") == "Größe.java");
  for (const char* broken : {"", "public class", "public class \"", "/*", "\"", "'\\", "public class {"}) {
    CHECK(java_source_name(broken, "x.java") == "x.java");
  }
}

TEST_CASE("what a class file says of itself") {
  const std::string bytes = class_file("pkg/Hello", "Hello.java", 0x9, "([Ljava/lang/String;)V");
  const Result<ClassFile> file = parse_class_file(bytes);
  REQUIRE(file.ok());
  CHECK(file.value().name == "pkg.Hello");
  CHECK(file.value().source == "Hello.java");
  CHECK(file.value().has_main);
  CHECK_FALSE(parse_class_file(class_file("A", "A.java", 0x8, "([Ljava/lang/String;)V")).value().has_main);
  CHECK(parse_class_file(class_file("A", "A.java", 0, "()V")).value().has_instance_main);
  CHECK_FALSE(parse_class_file(class_file("A", "A.java", 0x9, "(I)V")).value().has_main);
  // Cut anywhere it is refused, not read beyond.
  for (size_t size = 0; size < bytes.size(); ++size) CHECK_FALSE(parse_class_file(bytes.substr(0, size)).ok());
}

TEST_CASE("the class to start") {
  const std::string descriptor = "([Ljava/lang/String;)V";
  std::vector<Product> products;
  products.push_back(product("notes.txt", "x"));
  products.push_back(product("Broken.class", "x"));
  CHECK_FALSE(jvm_main_class(products, "main").ok());
  products.push_back(product("Alpha.class", class_file("Alpha", "main.kt", 0x9, descriptor)));
  CHECK(jvm_main_class(products, "main").value() == "Alpha");
  products.push_back(product("Main.class", class_file("Main", "other.kt", 0x9, descriptor)));
  CHECK(jvm_main_class(products, "main").value() == "Main");
  products.push_back(product("MainKt.class", class_file("p/MainKt", "main.kt", 0x9, descriptor)));
  CHECK(jvm_main_class(products, "main").value() == "p.MainKt");
  products.push_back(product("main.class", class_file("main", "main.kt", 0, descriptor)));
  CHECK(jvm_main_class(products, "main").value() == "p.MainKt");
  products.push_back(product("q/main.class", class_file("q/main", "main.kt", 0x9, descriptor)));
  CHECK(jvm_main_class(products, "main").value() == "q.main");
}
