<?php
// Files, streams, gzip, digests, dates and serialisation, with the core's functions only.
$folder = sys_get_temp_dir() . '/work-' . getmypid();
mkdir("$folder/a/b", 0755, true);
foreach (['one.txt', 'a/two.txt', 'a/b/three.txt'] as $i => $name) file_put_contents("$folder/$name", str_repeat($name . PHP_EOL, $i + 1));
$found = [];
foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator($folder, FilesystemIterator::SKIP_DOTS)) as $file) {
    $found[substr($file->getPathname(), strlen($folder) + 1)] = $file->getSize();
}
ksort($found);
echo http_build_query($found, '', ' '), "\n";

$text = implode("\n", range(1, 20000));
if (function_exists('gzencode')) {
    $packed = gzencode($text, 6);
    echo strlen($text), ' ', gzdecode($packed) === $text ? 'same' : 'different', ' ', strlen($packed) < 60000 ? 'small' : 'large', "\n";
}
echo substr(hash('sha256', $text), 0, 16), ' ', hash('crc32b', $text), ' ', base64_encode(md5('x', true)), "\n";

$stream = fopen('php://temp', 'w+');
foreach ([['name', 'note'], ['Ann', 'says "hi", twice'], ['Bob', "two\nlines"]] as $row) fputcsv($stream, $row, ',', '"', '');
rewind($stream);
while (($row = fgetcsv($stream, null, ',', '"', '')) !== false) echo count($row), ':', addcslashes($row[1], "\n"), ' ';
echo "\n";

$date = new DateTimeImmutable('2024-01-31', new DateTimeZone('UTC'));
echo $date->modify('last day of next month')->format('D, d M Y'), ' ', $date->diff(new DateTimeImmutable('2024-12-25', new DateTimeZone('UTC')))->days, "\n";
$copy = unserialize(serialize(['n' => [1, 2.5, null], 'd' => $date]), ['allowed_classes' => [DateTimeImmutable::class]]);
echo json_encode($copy['n']), ' ', $copy['d'] == $date ? 'equal' : 'unequal', "\n";
array_map('unlink', ["$folder/one.txt", "$folder/a/two.txt", "$folder/a/b/three.txt"]);
array_map('rmdir', ["$folder/a/b", "$folder/a", $folder]);
echo file_exists($folder) ? 'left' : 'gone', "\n";
