import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { KnownVulnerability } from './scans-by-program.ts';

// The tables that Grype reads, without the indexes. Source: Grype, schema 6.1.10 of its database.
const tables = `
CREATE TABLE blobs (id INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL);
CREATE TABLE db_metadata (build_timestamp DATETIME NOT NULL, model INTEGER NOT NULL, revision INTEGER NOT NULL, addition INTEGER NOT NULL);
CREATE TABLE providers (id TEXT PRIMARY KEY, version TEXT, processor TEXT, date_captured DATETIME, input_digest TEXT);
CREATE TABLE vulnerability_handles (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, status TEXT NOT NULL,
  published_date DATETIME, modified_date DATETIME, withdrawn_date DATETIME, provider_id TEXT NOT NULL REFERENCES providers (id), blob_id INTEGER);
CREATE TABLE vulnerability_aliases (name TEXT, alias TEXT NOT NULL, PRIMARY KEY (name, alias));
CREATE TABLE operating_systems (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, release_id TEXT, major_version TEXT, minor_version TEXT,
  label_version TEXT, codename TEXT, channel TEXT, eol_date DATETIME, eoas_date DATETIME);
CREATE TABLE packages (id INTEGER PRIMARY KEY AUTOINCREMENT, ecosystem TEXT, name TEXT);
CREATE TABLE affected_package_handles (id INTEGER PRIMARY KEY AUTOINCREMENT, vulnerability_id INTEGER NOT NULL REFERENCES vulnerability_handles (id),
  operating_system_id INTEGER REFERENCES operating_systems (id), package_id INTEGER REFERENCES packages (id), blob_id INTEGER);
CREATE TABLE unaffected_package_handles (id INTEGER PRIMARY KEY AUTOINCREMENT, vulnerability_id INTEGER NOT NULL, operating_system_id INTEGER,
  package_id INTEGER, blob_id INTEGER);
CREATE TABLE operating_system_specifier_overrides (alias TEXT, version TEXT, version_pattern TEXT, codename TEXT, channel TEXT, replacement TEXT,
  replacement_major_version TEXT, replacement_minor_version TEXT, replacement_label_version TEXT, replacement_channel TEXT, rolling NUMERIC,
  applicable_client_db_schemas TEXT);
CREATE TABLE cpes (id INTEGER PRIMARY KEY AUTOINCREMENT, part TEXT NOT NULL, vendor TEXT, product TEXT NOT NULL, edition TEXT, language TEXT,
  software_edition TEXT, target_hardware TEXT, target_software TEXT, other TEXT);
CREATE TABLE package_cpes (cpe_id INTEGER, package_id INTEGER, PRIMARY KEY (cpe_id, package_id));
CREATE TABLE package_specifier_overrides (ecosystem TEXT, replacement_ecosystem TEXT, PRIMARY KEY (ecosystem, replacement_ecosystem));
CREATE TABLE architecture_aliases (alias TEXT PRIMARY KEY, canonical TEXT NOT NULL);
CREATE TABLE affected_cpe_handles (id INTEGER PRIMARY KEY AUTOINCREMENT, vulnerability_id INTEGER NOT NULL, cpe_id INTEGER, blob_id INTEGER);
CREATE TABLE unaffected_cpe_handles (id INTEGER PRIMARY KEY AUTOINCREMENT, vulnerability_id INTEGER NOT NULL, cpe_id INTEGER, blob_id INTEGER);
CREATE TABLE known_exploited_vulnerability_handles (id INTEGER PRIMARY KEY AUTOINCREMENT, cve TEXT NOT NULL, blob_id INTEGER);
CREATE TABLE epss_handles (id INTEGER PRIMARY KEY AUTOINCREMENT, cve TEXT NOT NULL, epss REAL NOT NULL, percentile REAL NOT NULL);
CREATE TABLE epss_metadata (date DATETIME NOT NULL);
CREATE TABLE cwe_handles (id INTEGER PRIMARY KEY AUTOINCREMENT, cve TEXT NOT NULL, cwe TEXT NOT NULL, source TEXT, type TEXT);
CREATE TABLE ssvc_handles (id INTEGER PRIMARY KEY AUTOINCREMENT, cve TEXT NOT NULL, source TEXT, role TEXT, version TEXT, timestamp DATETIME,
  exploitation TEXT, automatable TEXT, technical_impact TEXT);
INSERT INTO db_metadata VALUES ('2026-11-01 00:00:00+00:00', 6, 1, 10);
INSERT INTO providers VALUES ('alpine', '1', 'vunnel', '2026-11-01 00:00:00+00:00', 'xxh64:0000000000000000'),
  ('github', '1', 'vunnel', '2026-11-01 00:00:00+00:00', 'xxh64:0000000000000000');
INSERT INTO operating_systems (id, name, release_id, major_version, minor_version, label_version, codename, channel)
  VALUES (1, 'alpine', '', '3', '20', '', '', '');
`;

/** Makes the database of Grype, in its own format, with these vulnerabilities. */
export async function makeGrypeDatabase(
  folder: string,
  known: readonly KnownVulnerability[],
): Promise<void> {
  const version = join(folder, '6');
  await mkdir(version, { recursive: true });
  const database = new Database(join(version, 'vulnerability.db'));
  database.exec(tables);
  const blob = (value: object) =>
    database.prepare('INSERT INTO blobs (value) VALUES (?)').run(JSON.stringify(value))
      .lastInsertRowid;
  for (const { id, severity, packageName, fixedVersion, ecosystem = 'apk' } of known) {
    const severities = [{ scheme: 'CHMLN', value: severity, rank: 1 }];
    const about = blob({ id, description: `${packageName} is unsafe`, severities });
    const range = {
      version: { type: ecosystem, constraint: `< ${fixedVersion}` },
      fix: { version: fixedVersion, state: 'fixed' },
    };
    const affected = blob({ cves: [id], ranges: [range] });
    const vulnerability = database
      .prepare(
        "INSERT INTO vulnerability_handles (name, status, provider_id, blob_id) VALUES (?, 'active', ?, ?)",
      )
      .run(id, ecosystem === 'apk' ? 'alpine' : 'github', about).lastInsertRowid;
    const named = database
      .prepare('INSERT INTO packages (ecosystem, name) VALUES (?, ?)')
      .run(ecosystem, packageName).lastInsertRowid;
    database
      .prepare(
        'INSERT INTO affected_package_handles (vulnerability_id, operating_system_id, package_id, blob_id) VALUES (?, ?, ?, ?)',
      )
      .run(vulnerability, ecosystem === 'apk' ? 1 : null, named, affected);
  }
  database.close();
  await writeFile(
    join(version, 'import.json'),
    JSON.stringify({ digest: 'xxh64:0000000000000001', source: 'test', client_version: '6.1.10' }),
  );
}
