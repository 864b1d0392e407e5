// SPDX-License-Identifier: MIT OR Apache-2.0

package quoit

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Go's own layout is that of the headers as cgo reads them.
func TestLayoutCgo(t *testing.T) {
	for name, s := range layouts() {
		if s.size != s.inC {
			t.Errorf("%s is %d bytes in Go and %d in C", name, s.size, s.inC)
		}
		end := uintptr(0)
		for _, f := range s.fields {
			if f.inGo != f.inC || f.inGo != end {
				t.Errorf("%s.%s is at %d in Go and %d in C; the field before ends at %d", name, f.name, f.inGo, f.inC, end)
			}
			end = f.inGo + f.bytes
		}
		if end != s.size {
			t.Errorf("%s is %d bytes, its fields end at %d", name, s.size, end)
		}
	}
}

// layoutJSON is what the C compiler says, made by the program that prints layout.json.
type layoutJSON struct {
	Structs map[string]struct {
		Size   uintptr
		Fields []struct {
			Name         string
			Offset, Size uintptr
		}
	}
	Constants map[string]map[string]int64 // by family
}

func readLayout(t *testing.T) []byte {
	t.Helper()
	source, err := filepath.Abs("../../capi/layout.c")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(source); err != nil {
		t.Skip("the program that prints layout.json is not here: ", err)
	}
	flags, err := exec.Command("pkg-config", "--cflags", "quoit").Output()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "layout")
	args := append([]string{"-o", program, source}, strings.Fields(string(flags))...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	text, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestLayoutJSON(t *testing.T) {
	var want layoutJSON
	if err := json.Unmarshal(readLayout(t), &want); err != nil {
		t.Fatal(err)
	}
	mine := layouts()
	stats := structLayout{size: reflect.TypeOf(Stats{}).Size()}
	for i, st := 0, reflect.TypeOf(Stats{}); i < st.NumField(); i++ {
		f := st.Field(i)
		name := f.Tag.Get("json")
		if name == "-" {
			name = map[string]string{"StructSize": "struct_size", "Driver": "driver"}[f.Name]
		}
		stats.fields = append(stats.fields, fieldLayout{name: name, inGo: f.Offset, bytes: f.Type.Size()})
	}
	mine["quoit_stats"] = stats

	for name, s := range mine {
		c, ok := want.Structs[name]
		if !ok {
			t.Errorf("layout.json knows no %s", name)
			continue
		}
		if c.Size != s.size || len(c.Fields) != len(s.fields) {
			t.Errorf("%s: %d bytes, %d fields; layout.json has %d and %d",
				name, s.size, len(s.fields), c.Size, len(c.Fields))
		}
		for i, f := range c.Fields {
			if i < len(s.fields) && (fieldLayout{f.Name, f.Offset, s.fields[i].inC, f.Size}) != s.fields[i] {
				t.Errorf("%s: %+v; layout.json has %+v", name, s.fields[i], f)
			}
		}
	}
}

// Every constant of the headers has its place in the package (its value is C's own, by cgo).
func TestConstantsComplete(t *testing.T) {
	var want layoutJSON
	if err := json.Unmarshal(readLayout(t), &want); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{
		"QUOIT_OK": true, "QUOIT_OPF_LINK": true, "QUOIT_VERSION_NUM": true, // nothing to do with them
		"QUOIT_RUN_STOP": true, // of quoit_run, which Go does not use
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`C\.(QUOIT_\w+)`).FindAllSubmatch(text, -1) {
			used[string(m[1])] = true
		}
	}
	count := 0
	for _, family := range want.Constants {
		for name := range family {
			count++
			if !used[name] {
				t.Errorf("%s is missing", name)
			}
		}
	}
	if count < 50 {
		t.Errorf("layout.json lists %d constants", count)
	}
}
