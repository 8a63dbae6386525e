// gzip and hashes in memory, a template, files in a temporary directory.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

type item struct {
	Name  string
	Count int
}

func main() {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	for i := 0; i < 20000; i++ {
		fmt.Fprintf(writer, "line %d\n", i)
	}
	writer.Close()
	size := packed.Len()
	reader, err := gzip.NewReader(&packed)
	if err != nil {
		panic(err)
	}
	hash := sha256.New()
	scanner := bufio.NewScanner(io.TeeReader(reader, hash))
	lines := 0
	for scanner.Scan() {
		lines++
	}
	fmt.Printf("%d lines, small: %v, sha256 %x\n", lines, size < 100000, hash.Sum(nil)[:8])

	page := template.Must(template.New("page").Funcs(template.FuncMap{"upper": strings.ToUpper}).Parse(
		`{{range $i, $x := .}}{{if $i}}, {{end}}{{$x.Count}} {{upper $x.Name}}{{if gt $x.Count 1}}s{{end}}{{else}}nothing{{end}}` + "\n"))
	page.Execute(os.Stdout, []item{{"pear", 2}, {"æble", 1}})
	page.Execute(os.Stdout, []item{})

	folder, err := os.MkdirTemp("", "work")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	for _, name := range []string{"b/two.txt", "a.txt", "b/c/three.txt"} {
		path := filepath.Join(folder, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		os.WriteFile(path, []byte(name), 0o644)
	}
	filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			relative, _ := filepath.Rel(folder, path)
			fmt.Print(relative, " ")
		}
		return err
	})
	_, err = os.Open(filepath.Join(folder, "missing"))
	fmt.Println(errors.Is(err, fs.ErrNotExist))
}
