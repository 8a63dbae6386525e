// JSON on stdin to structs, grouped and sorted, and JSON out; unknown fields are errors.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
)

type Line struct {
	Item  string  `json:"item"`
	Price float64 `json:"price"`
	Count int     `json:"count"`
}

type Order struct {
	Customer string  `json:"customer"`
	Lines    []Line  `json:"lines"`
	Note     *string `json:"note,omitempty"`
}

type Report struct {
	Customer string   `json:"customer"`
	Total    float64  `json:"total"`
	Items    []string `json:"items"`
	Notes    int      `json:"notes,omitempty"`
}

func main() {
	var orders []Order
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&orders); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	reports := map[string]*Report{}
	for _, order := range orders {
		report := reports[order.Customer]
		if report == nil {
			report = &Report{Customer: order.Customer}
			reports[order.Customer] = report
		}
		for _, line := range order.Lines {
			report.Total += line.Price * float64(line.Count)
			report.Items = append(report.Items, strings.ToUpper(line.Item))
		}
		if order.Note != nil {
			report.Notes++
		}
	}
	var list []*Report
	for _, report := range reports {
		sort.Strings(report.Items)
		list = append(list, report)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Total > list[j].Total })
	out, _ := json.MarshalIndent(list, "", "  ")
	fmt.Println(string(out))
	var bad struct{ N int }
	err := json.Unmarshal([]byte(`{"N": "text"}`), &bad)
	fmt.Println(err)
}
