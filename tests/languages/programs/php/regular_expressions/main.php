<?php
// A router and a tiny Markdown translator by preg functions; lines from stdin.
$routes = [
    '#^/users/(?<id>\d+)$#' => fn (array $m) => "user {$m['id']}",
    '#^/files/(?<path>.+)\.(?<type>txt|md)$#i' => fn (array $m) => strtolower($m['type']) . " file {$m['path']}",
    '#^/(?:index)?$#' => fn (array $m) => 'home',
];

function render(string $text): string {
    $text = htmlspecialchars($text);
    $text = preg_replace('/\*\*(.+?)\*\*/u', '<b>$1</b>', $text);
    $text = preg_replace_callback('/`([^`]+)`/', fn ($m) => '<code>' . strtoupper($m[1]) . '</code>', $text);
    return preg_replace('~\[([^\]]+)\]\((https?://[^)\s]+)\)~', '<a href="$2">$1</a>', $text);
}

while (($line = fgets(STDIN)) !== false) {
    $line = rtrim($line);
    if (!str_starts_with($line, '/')) {
        echo render($line), "\n";
        continue;
    }
    $answer = 'nothing there';
    foreach ($routes as $pattern => $action) {
        if (preg_match($pattern, $line, $match)) {
            $answer = $action($match);
            break;
        }
    }
    echo "$line -> $answer\n";
}
preg_match_all('/(?<key>\w+)=(?<value>[^;]*)/', 'a=1;b=two;c=', $all, PREG_SET_ORDER);
echo implode(', ', array_map(fn ($m) => "{$m['key']}:{$m['value']}", $all)), "\n";
echo implode('|', preg_split('/[\s,]+/', "tea, pot\ncup  spoon")), ' ', preg_match('/^\p{Lu}\p{L}+$/u', 'Ärger'), "\n";
