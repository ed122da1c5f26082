// Writes a database of vulnerabilities that Trivy reads: `trivy-database FOLDER < vulnerabilities.json`, with a list of
// {id, severity, packageName, fixedVersion, ecosystem}. The severity is in capitals.
package main

import (
	"encoding/json"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/aquasecurity/trivy-db/pkg/db"
	"github.com/aquasecurity/trivy-db/pkg/metadata"
	"github.com/aquasecurity/trivy-db/pkg/types"
	bolt "go.etcd.io/bbolt"
)

type known struct {
	ID           string `json:"id"`
	Severity     string `json:"severity"`
	PackageName  string `json:"packageName"`
	FixedVersion string `json:"fixedVersion"`
	Ecosystem    string `json:"ecosystem"`
}

var sources = map[string]types.DataSource{
	"alpine 3.20":                       {ID: "alpine", Name: "Alpine Secdb", URL: "https://secdb.alpinelinux.org/"},
	"pip::GitHub Security Advisory Pip": {ID: "ghsa", Name: "GitHub Security Advisory Pip", URL: "https://github.com/advisories"},
}

func main() {
	var all []known
	must(json.NewDecoder(os.Stdin).Decode(&all))
	folder := filepath.Join(os.Args[1], "db")
	must(db.Init(folder))
	dbc := db.Config{}
	must(dbc.BatchUpdate(func(tx *bolt.Tx) error {
		for bucket, source := range sources {
			must(dbc.PutDataSource(tx, bucket, source))
		}
		for _, one := range all {
			severity, err := types.NewSeverity(one.Severity)
			must(err)
			bucket, advisory := "alpine 3.20", types.Advisory{FixedVersion: one.FixedVersion}
			if one.Ecosystem == "python" {
				bucket = "pip::GitHub Security Advisory Pip"
				advisory = types.Advisory{
					PatchedVersions:    []string{one.FixedVersion},
					VulnerableVersions: []string{"<" + one.FixedVersion},
				}
			}
			must(dbc.PutAdvisoryDetail(tx, one.ID, one.PackageName, []string{bucket}, advisory))
			must(dbc.SaveAdvisoryDetails(tx, one.ID))
			must(dbc.PutVulnerability(tx, one.ID, types.Vulnerability{
				Title:          one.PackageName + " is unsafe",
				Severity:       severity.String(),
				VendorSeverity: types.VendorSeverity{"nvd": severity},
			}))
		}
		return nil
	}))
	must(dbc.DeleteAdvisoryDetailBucket())
	must(db.Close())
	now := time.Now().UTC()
	must(metadata.NewClient(folder).Update(metadata.Metadata{
		Version: db.SchemaVersion, UpdatedAt: now, NextUpdate: now.AddDate(1, 0, 0), DownloadedAt: now,
	}))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
