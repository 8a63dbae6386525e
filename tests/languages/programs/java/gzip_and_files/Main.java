import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.stream.Collectors;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;

/** gzip in memory, a zip file on disk, a directory walked, a digest. */
public class Main {
    public static void main(String[] args) throws Exception {
        byte[] text = "the quick brown fox — ".repeat(5000).getBytes(StandardCharsets.UTF_8);
        var packed = new ByteArrayOutputStream();
        try (var out = new GZIPOutputStream(packed)) {
            out.write(text);
        }
        byte[] back = new GZIPInputStream(new ByteArrayInputStream(packed.toByteArray())).readAllBytes();
        System.out.println(text.length + " bytes, same: " + java.util.Arrays.equals(text, back) + ", small: " + (packed.size() < 2000));

        Path folder = Files.createTempDirectory("work"), zip = folder.resolve("a.zip");
        try (var out = new ZipOutputStream(Files.newOutputStream(zip))) {
            for (String name : new String[] {"one.txt", "two/three.txt"}) {
                out.putNextEntry(new ZipEntry(name));
                out.write(name.toUpperCase().getBytes());
                out.closeEntry();
            }
        }
        try (var file = new ZipFile(zip.toFile())) {
            for (var entries = file.entries(); entries.hasMoreElements();) {
                ZipEntry entry = entries.nextElement();
                Path target = folder.resolve(entry.getName());
                Files.createDirectories(target.getParent());
                Files.write(target, file.getInputStream(entry).readAllBytes());
            }
        }
        try (var walk = Files.walk(folder)) {
            System.out.println(walk.filter(Files::isRegularFile).map(p -> folder.relativize(p).toString()).sorted()
                    .collect(Collectors.joining(", ")));
        }
        System.out.println(Files.readString(folder.resolve("two/three.txt")));
        System.out.println(HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text)).substring(0, 16));
    }
}
