<?php
// A text adventure: interfaces, traits, exceptions; commands from stdin, options from the arguments.
interface Thing { public function use(Player $by): string; }

trait Named {
    public function __construct(private string $name) {}
    public function __toString(): string { return $this->name; }
}

class Lamp implements Thing {
    use Named;
    private bool $lit = false;
    public function use(Player $by): string {
        $this->lit = !$this->lit;
        $by->sees = $this->lit;
        return "the $this is " . ($this->lit ? 'lit' : 'out');
    }
}

class Door implements Thing {
    use Named;
    public function use(Player $by): string {
        if (!$by->sees) throw new LogicException("you cannot find the $this");
        $by->out = true;
        return "the $this opens";
    }
}

class Player {
    public bool $sees = false;
    public bool $out = false;
    private int $turns = 0;
    private array $things = [];
    public function __construct(private int $patience, Thing ...$things) {
        foreach ($things as $thing) $this->things[(string) $thing] = $thing;
    }
    public function command(string $line): string {
        if (++$this->turns > $this->patience) throw new RuntimeException('too late');
        [$verb, $what] = explode(' ', trim($line), 2) + [1 => null];
        return match (true) {
            $verb === 'use' && isset($this->things[$what]) => $this->things[$what]->use($this),
            $verb === 'look' => $this->sees ? 'you see: ' . implode(', ', array_keys($this->things)) : 'it is dark',
            default => throw new LogicException("you cannot $verb" . ($what === null ? '' : " the $what")),
        };
    }
}

$player = new Player((int) ($argv[1] ?? 10), new Lamp('lamp'), new Door('door'));
try {
    while (!$player->out && ($line = fgets(STDIN)) !== false) {
        try {
            echo $player->command($line), "\n";
        } catch (LogicException $e) {
            echo "- {$e->getMessage()}\n";
        }
    }
} catch (RuntimeException $e) {
    echo $e->getMessage(), "\n";
    exit(4);
} finally {
    echo "game over\n";
}
echo $player->out ? "free\n" : "asleep\n";
