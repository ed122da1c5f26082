/** Scans by Trivy as a program of the server's machine. `npm run trivy` runs it: compiling Trivy takes longer than many tests. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { runProgram } from '../world/program.ts';
import { requireTrivy, requireTrivyDatabase } from '../world/tools.ts';
import { testScans } from './scans-by-program.ts';

testScans({
  name: 'Trivy',
  program: requireTrivy(),
  page: 'https://avd.aquasec.com/nvd/cve-2099-1',
  async makeDatabase(folder, known) {
    const input = JSON.stringify(
      known.map(one => ({ ...one, severity: one.severity.toUpperCase() })),
    );
    const { code, stderr } = await runProgram([requireTrivyDatabase(), folder], { env: {}, input });
    assert.equal(code, 0, stderr);
    await makeJavaDatabase(join(folder, 'java-db'));
  },
  async foundIn(file, database) {
    const args = ['--skip-db-update', '--offline-scan', '--cache-dir', database, '--quiet'];
    const order = [requireTrivy(), 'sbom', ...args, '--format', 'json', file];
    const read = await runProgram(order, { env: { HOME: database } });
    assert.equal(read.code, 0, read.stderr);
    type Report = { Results?: { Vulnerabilities?: { VulnerabilityID: string }[] }[] };
    const { Results = [] } = JSON.parse(read.stdout) as Report;
    return Results.flatMap(({ Vulnerabilities = [] }) =>
      Vulnerabilities.map(({ VulnerabilityID }) => VulnerabilityID),
    );
  },
});

/** Makes an empty database of Java archives, without which Trivy reads no image that has one. Source: trivy-java-db, schema 1. */
async function makeJavaDatabase(folder: string): Promise<void> {
  await mkdir(folder);
  const database = new Database(join(folder, 'trivy-java.db'));
  database.exec(`CREATE TABLE artifacts (id INTEGER PRIMARY KEY, group_id TEXT, artifact_id TEXT);
    CREATE TABLE indices (artifact_id INTEGER, version TEXT, sha1 BLOB, archive_type TEXT)`);
  database.close();
  const [now, later] = [0, 1].map(years => new Date(Date.now() + years * yearMs).toISOString());
  const about = { Version: 1, NextUpdate: later, UpdatedAt: now, DownloadedAt: now };
  await writeFile(join(folder, 'metadata.json'), JSON.stringify(about));
}

const yearMs = 365 * 24 * 3_600_000;
