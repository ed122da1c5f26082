/** Scans by Grype as a program of the server's machine. */
import assert from 'node:assert/strict';
import { runProgram } from '../world/program.ts';
import { requireGrype } from '../world/tools.ts';
import { makeGrypeDatabase } from './grype-database.ts';
import { testScans } from './scans-by-program.ts';

testScans({
  name: 'Grype',
  program: requireGrype(),
  makeDatabase: makeGrypeDatabase,
  async foundIn(file, database) {
    const env = {
      HOME: database,
      GRYPE_DB_CACHE_DIR: database,
      GRYPE_DB_AUTO_UPDATE: 'false',
      GRYPE_DB_VALIDATE_AGE: 'false',
      GRYPE_DB_VALIDATE_BY_HASH_ON_START: 'false',
      GRYPE_CHECK_FOR_APP_UPDATE: 'false',
    };
    const read = await runProgram([requireGrype(), `sbom:${file}`, '-q', '-o', 'json'], { env });
    assert.equal(read.code, 0, read.stderr);
    const { matches } = JSON.parse(read.stdout) as { matches: { vulnerability: { id: string } }[] };
    return matches.map(({ vulnerability }) => vulnerability.id);
  },
});
