// A text adventure driven by a table; stdin by bufio, the status tells how it ended.
package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"
)

type state struct {
	room  string
	lives int
	bag   map[string]bool
}

type rule struct {
	pattern *regexp.Regexp
	act     func(s *state, words []string) string
}

var doors = map[string]map[string]string{
	"cave":   {"north": "bridge", "down": "pit"},
	"bridge": {"south": "cave", "north": "castle"},
	"castle": {"south": "bridge"},
}

var rules = []rule{
	{regexp.MustCompile(`^(?:go|walk) (\w+)$`), func(s *state, words []string) string {
		next, ok := doors[s.room][words[1]]
		switch {
		case !ok:
			return "there is no way " + words[1]
		case next == "pit":
			s.lives--
			return fmt.Sprintf("you fall; %d lives left", s.lives)
		case next == "castle" && !s.bag["coin"]:
			return "the guard wants a coin"
		}
		s.room = next
		return "you are at the " + next
	}},
	{regexp.MustCompile(`^(take|drop) (?:the )?(\w+)$`), func(s *state, words []string) string {
		s.bag[words[2]] = words[1] == "take"
		return map[string]string{"take": "you have the ", "drop": "you lost the "}[words[1]] + words[2]
	}},
}

func main() {
	s := &state{room: "cave", lives: 2, bag: map[string]bool{}}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() && s.lives > 0 && s.room != "castle" {
		line := strings.ToLower(strings.TrimSpace(in.Text()))
		answer := "what do you mean by '" + line + "'?"
		for _, r := range rules {
			if words := r.pattern.FindStringSubmatch(line); words != nil {
				answer = r.act(s, words)
				break
			}
		}
		fmt.Println(answer)
	}
	if s.room != "castle" {
		fmt.Println("you lost")
		os.Exit(3)
	}
	fmt.Println("you won with", s.lives, "lives")
}
