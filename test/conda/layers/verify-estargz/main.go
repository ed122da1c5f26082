// Verifies a layer in the eStargz form as lazy clients do, with the library of stargz-snapshotter:
//
//	verify LAYER TOC-DIGEST
//
// It opens the layer by its footer, compares the digest of its table of contents, reads each chunk of each file from its own
// place in the layer, and compares it with the digest in the table. It prints the tree that the table describes as JSON: a line
// for each path, sorted.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"sort"

	"github.com/containerd/stargz-snapshotter/estargz"
	"github.com/opencontainers/go-digest"
)

type node struct {
	Path   string `json:"path"`
	Type   string `json:"type"`
	Mode   int64  `json:"mode"`
	Size   int64  `json:"size"`
	Time   int64  `json:"time"`
	Link   string `json:"link,omitempty"`
	Links  int    `json:"links"`
	Sha256 string `json:"sha256,omitempty"`
	Chunks int    `json:"chunks,omitempty"`
	Uid    int    `json:"uid,omitempty"`
	Gid    int    `json:"gid,omitempty"`
	User   string `json:"user,omitempty"`
	Group  string `json:"group,omitempty"`
	Major  int    `json:"major,omitempty"`
	Minor  int    `json:"minor,omitempty"`

	Xattrs map[string][]byte `json:"xattrs,omitempty"`
}

func main() {
	if err := verify(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func verify(file, tocDigest string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	sr := io.NewSectionReader(f, 0, info.Size())
	reader, err := estargz.Open(sr)
	if err != nil {
		return err
	}
	verifier, err := reader.VerifyTOC(digest.Digest(tocDigest))
	if err != nil {
		return err
	}
	var nodes []node
	var walk func(name string, entry *estargz.TOCEntry) error
	walk = func(name string, entry *estargz.TOCEntry) error {
		n := node{
			Path: name, Type: entry.Type, Mode: entry.Mode, Size: entry.Size,
			Time: entry.ModTime().Unix(), Link: entry.LinkName, Links: entry.NumLink,
			Uid: entry.UID, Gid: entry.GID, User: entry.Uname, Group: entry.Gname,
			Major: entry.DevMajor, Minor: entry.DevMinor, Xattrs: entry.Xattrs,
		}
		if entry.Type == "reg" {
			sum := sha256.New()
			if n.Chunks, err = readChunks(reader, verifier, entry, sum); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			n.Sha256 = hex.EncodeToString(sum.Sum(nil))
			if entry.Digest != "sha256:"+n.Sha256 {
				return fmt.Errorf("%s: the table has the digest %s", name, entry.Digest)
			}
		}
		nodes = append(nodes, n)
		var failed error
		entry.ForeachChild(func(base string, child *estargz.TOCEntry) bool {
			failed = walk(path.Join(name, base), child)
			return failed == nil
		})
		return failed
	}
	root, ok := reader.Lookup("")
	if !ok {
		return fmt.Errorf("the table has no root")
	}
	if err := walk("", root); err != nil {
		return err
	}
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].Path < nodes[j].Path })
	out := json.NewEncoder(os.Stdout)
	for _, n := range nodes {
		if err := out.Encode(n); err != nil {
			return err
		}
	}
	return nil
}

func readChunks(r *estargz.Reader, v estargz.TOCEntryVerifier, entry *estargz.TOCEntry, sum io.Writer) (int, error) {
	if entry.Size == 0 {
		return 0, nil
	}
	content, err := r.OpenFile(entry.Name)
	if err != nil {
		return 0, err
	}
	count := 0
	for at := int64(0); at < entry.Size; count++ {
		chunk, ok := r.ChunkEntryForOffset(entry.Name, at)
		if !ok {
			return 0, fmt.Errorf("no chunk at %d", at)
		}
		check, err := v.Verifier(chunk)
		if err != nil {
			return 0, err
		}
		data := make([]byte, chunk.ChunkSize)
		if _, err := content.ReadAt(data, at); err != nil && err != io.EOF {
			return 0, err
		}
		if _, err := io.Copy(io.MultiWriter(check, sum), bytes.NewReader(data)); err != nil {
			return 0, err
		}
		if !check.Verified() {
			return 0, fmt.Errorf("the chunk at %d has another digest", at)
		}
		at += chunk.ChunkSize
	}
	return count, nil
}
