/** Programs that scan images, and misbehave: scripts in place of Grype. */
import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import type { FoundInImage } from '../../src/scans/found-in-image.ts';
import { findScannerProgram } from '../../src/scans/programs/find-program.ts';
import { readProgramReport } from '../../src/scans/programs/program-reports.ts';
import { createScannerProgram } from '../../src/scans/programs/scanner-program.ts';
import { hasEnded } from '../world/ended-process.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

const image = {
  registry: 'https://[::1]:8443',
  repository: 'wt/secrettoken/library/one',
  digest: `sha256:${'a'.repeat(64)}`,
  mediaType: 'application/vnd.oci.image.manifest.v1+json',
};

suite('a program that scans images', () => {
  let folder: TempDir;
  before(async () => {
    folder = await makeTempDir('scanner-program');
  });
  after(() => folder.remove());

  let count = 0;
  const scan = async (
    script: string,
    more: {
      kind?: 'trivy' | 'grype';
      timeoutMs?: number;
      requireSpace?: () => void;
      signal?: AbortSignal;
    } = {},
  ) => {
    count += 1;
    const path = folder.join(`grype-${count}`);
    await writeFile(path, `#!/bin/sh\n${script}\n`, { mode: 0o700 });
    const scanner = createScannerProgram(
      {
        kind: more.kind ?? 'grype',
        path,
        database: folder.join('database'),
        updatesDatabase: false,
        ca: '-----BEGIN CERTIFICATE-----',
        memoryBytes: 64 * 1024 * 1024,
      },
      {
        folder: folder.join('runs'),
        timeoutMs: 10_000,
        requireSpace: () => {},
        proxies: { HTTPS_PROXY: 'http://name:secret@proxy' },
        ...more,
      },
    );
    const found: FoundInImage = { vulnerabilities: new Map(), packages: undefined };
    try {
      await scanner.scan(image, found, more.signal ?? new AbortController().signal);
      return found;
    } finally {
      assert.deepEqual(await readdir(folder.join('runs')), []);
    }
  };
  const report = (text: string, bill = '{"components":[]}') =>
    `printf '%s' '${text}' > report.json; printf '%s' '${bill}' > bill.json`;

  test('gets the image, and no variable of the server', async () => {
    process.env.SLUICE_TEST_SECRET = 'word';
    await scan(
      `export -p > ${folder.join('env')}; echo "$@" > ${folder.join('args')}; ${report('{"matches":[]}')}`,
    );
    delete process.env.SLUICE_TEST_SECRET;
    const env = await readFile(folder.join('env'), 'utf8');
    assert.doesNotMatch(env, /secret|SLUICE_|word/);
    assert.match(env, /NO_PROXY='?::1/);
    assert.match(env, /HTTPS_PROXY='http:\/\/127\.0\.0\.1:9'/);
    assert.match(
      await readFile(folder.join('args'), 'utf8'),
      /^registry:\[::1\]:8443\/wt\/secrettoken\/library\/one@sha256:a{64} /,
    );
  });

  test('reports vulnerabilities and packages', async () => {
    const match = {
      vulnerability: { id: 'CVE-1', severity: 'Negligible', fix: { versions: ['2', '3'] } },
      artifact: { name: 'zlib', version: '1', locations: [{ layerID: 'sha256:1' }] },
    };
    const part = {
      ...{ type: 'library', name: 'zlib', version: '1', purl: 'pkg:apk/alpine/zlib@1' },
      licenses: [{ license: { id: 'Zlib' } }, { expression: 'MIT OR Zlib' }],
    };
    const bill = { components: [part, { type: 'file', name: '/etc/passwd' }] };
    const found = await scan(report(JSON.stringify({ matches: [match] }), JSON.stringify(bill)));
    const [one] = found.vulnerabilities.values();
    assert.equal(one?.severity, 'LOW');
    assert.equal(one?.fixedVersion, '2, 3');
    assert.equal(one?.layer, 'sha256:1');
    const licenses = ['Zlib', 'MIT OR Zlib'];
    const { type: _, ...listed } = { ...part, licenses };
    assert.deepEqual([...(found.packages?.values() ?? [])], [listed]);
  });

  const faults: readonly (readonly [string, string, RegExp])[] = [
    ['writes no report', ':', /sent no report/],
    ['writes something else', report('<html>'), /not JSON/],
    ['writes a list', report('[]'), /not a report about an image/],
    ['writes members of all objects', report('{"matches":{"length":1}}'), /not a report/],
    ['nests without end', nested(), /not JSON|not a report/],
    [
      'writes more than it may',
      `: > bill.json; /usr/bin/truncate -s 60M report.json`,
      /more than 48 MiB/,
    ],
    [
      'finds a million vulnerabilities',
      `{ printf '{"matches":[0'; /usr/bin/yes ,0 | /usr/bin/head -n 1000000; printf ']}'; } > report.json; echo '{}' > bill.json`,
      /more than 20000 vulnerabilities/,
    ],
    [
      'fails, and names the place of the image',
      `echo "at $PWD" >&2; echo "cannot read $1 in $PWD: 404" >&2; exit 1`,
      /^Grype failed: cannot read registry: in : 404$/,
    ],
    ['takes too much memory', 'x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done', /MiB of memory/],
  ];
  for (const [what, script, reason] of faults) {
    test(`that ${what} fails the scan`, async () => {
      await assert.rejects(scan(script), (error: Fault) => {
        assert.ok(error instanceof Fault, String(error));
        assert.match(error.message, reason);
        return true;
      });
    });
  }

  test('Trivy without a database for Java says what its operator does', async () => {
    const words =
      "FATAL Fatal error run error: image scan error: analyze error: Unable to initialize the Java DB: Java DB update failed: '--skip-java-db-update' cannot be specified on the first run";
    const run = scan(`echo "${words}" >&2; exit 1`, { kind: 'trivy' });
    await assert.rejects(run, /^Fault: The image has Java archives, .* --download-java-db-only/);
  });

  test('is ended with all that it started: after its time, with its scan, and on a full disk', async () => {
    const pids = folder.join('pids');
    const endless = `echo $$ >> ${pids}; /usr/bin/sleep 600 <&- >&- 2>&- & echo $! >> ${pids}; while :; do :; done`;
    const countStarted = async () =>
      (await readFile(pids, 'utf8').catch(() => '')).split('\n').length - 1;
    let known = 0;
    const haveStarted = async () => (await countStarted()) >= known + 2;
    // On a busy machine it may be ended before it has started another one: then it gets more time.
    for (let timeoutMs = 300; !(await haveStarted()); timeoutMs *= 2) {
      known = await countStarted();
      await assert.rejects(scan(endless, { timeoutMs }), /did not end in time/);
    }
    known = await countStarted();
    const caller = new AbortController();
    const left = assert.rejects(
      scan(endless, { signal: caller.signal, timeoutMs: 60_000 }),
      /the caller left/,
    );
    await eventually('both processes run', haveStarted);
    caller.abort(new Error('the caller left'));
    await left;
    known = await countStarted();
    const requireSpace = async () => {
      if (await haveStarted()) throw new Error('full');
    };
    await assert.rejects(scan(endless, { requireSpace, timeoutMs: 60_000 }), /full/);
    const started = (await readFile(pids, 'utf8')).trim().split('\n');
    assert.ok(started.length >= 6, started.join(' '));
    // They die some time after the signal.
    for (const pid of started) await eventually(`${pid} has ended`, () => hasEnded(pid), 10_000);
  });

  test('trivy: its report has vulnerabilities and packages', () => {
    // Recorded from Trivy 0.74, shortened.
    const purl = 'pkg:apk/alpine/zlib@1.3.1-r1?arch=x86_64&distro=3.20.3';
    const part = { ID: 'zlib@1.3.1-r1', Name: 'zlib', Identifier: { PURL: purl } };
    const Packages = [{ ...part, Version: '1.3.1-r1', Arch: 'x86_64', Licenses: ['Zlib'] }];
    const found = {
      ...{ VulnerabilityID: 'CVE-2099-1', PkgName: 'zlib', InstalledVersion: '1.3.1-r1' },
      ...{ FixedVersion: '1.3.1-r9', Title: 'zlib is unsafe', Severity: 'HIGH' },
      Layer: { Digest: 'sha256:1', DiffID: 'sha256:2' },
      PrimaryURL: 'https://avd.aquasec.com/nvd/cve-2099-1',
    };
    const report = {
      ...{ SchemaVersion: 2, ArtifactType: 'container_image' },
      Metadata: { OS: { Family: 'alpine', Name: '3.20.3' } },
      // A layer without packages has a result without lists.
      Results: [{ Class: 'os-pkgs', Packages, Vulnerabilities: [found] }, { Class: 'lang-pkgs' }],
    };
    assert.deepEqual(readProgramReport('trivy', { report, bill: undefined }), {
      vulnerabilities: [
        {
          ...{ id: 'CVE-2099-1', package: 'zlib', version: '1.3.1-r1', fix_version: '1.3.1-r9' },
          ...{ severity: 'HIGH', description: 'zlib is unsafe' },
          links: ['https://avd.aquasec.com/nvd/cve-2099-1'],
          layer: { digest: 'sha256:1' },
        },
      ],
      packages: [
        { name: 'alpine', version: '3.20.3', isSystem: true },
        {
          name: 'zlib',
          version: '1.3.1-r1',
          purl: 'pkg:apk/alpine/zlib@1.3.1-r1?arch=x86_64&distro=alpine-3.20.3',
          licenses: ['Zlib'],
        },
      ],
    });
    const ofBill = { ...report, ArtifactType: 'cyclonedx' };
    const { packages } = readProgramReport('trivy', { report: ofBill, bill: undefined });
    assert.equal(packages.length, 2);
    const other = { ...report, ArtifactType: 'filesystem' };
    assert.throws(
      () => readProgramReport('trivy', { report: other, bill: undefined }),
      /not a rep/,
    );
  });

  test('is asked for its version once, and requires a database', async () => {
    const path = folder.join('grype-version');
    const asked = folder.join('asked');
    await writeFile(
      path,
      `#!/bin/sh\necho >> ${asked}\necho '{"version":"1.2.3","application":"grype"}'\n`,
      { mode: 0o700 },
    );
    const database = folder.join('base');
    const scanner = createScannerProgram(
      {
        ...{ kind: 'grype', path, database, updatesDatabase: false, ca: undefined },
        memoryBytes: 64 * 1024 * 1024,
      },
      { folder: folder.join('runs'), timeoutMs: 10_000, requireSpace: () => {}, proxies: {} },
    );
    const { signal } = new AbortController();
    await assert.rejects(scanner.describe(signal), /Grype has no database of vulnerabilities/);
    await mkdir(join(database, '6'), { recursive: true });
    await writeFile(join(database, '6/vulnerability.db'), '');
    await writeFile(join(database, '6/import.json'), '{"digest":"xxh64:1"}');
    const described = await Promise.all(Array.from({ length: 5 }, () => scanner.describe(signal)));
    for (const { name, database: of } of described) {
      assert.equal(name, 'Grype 1.2.3');
      assert.match(of, /^20.*Z xxh64:1$/);
    }
    assert.equal(await readFile(asked, 'utf8'), '\n');
    await scanner.close();
  });

  test('is found by its name, or by a path that says which one it is', async () => {
    await writeFile(folder.join('trivy'), '', { mode: 0o700 });
    await writeFile(folder.join('grype'), '', { mode: 0o600 });
    const path = `relative:/nonexistent:${folder.path}`;
    assert.deepEqual(findScannerProgram('trivy', path), {
      kind: 'trivy',
      path: folder.join('trivy'),
    });
    assert.equal(findScannerProgram('grype', path), undefined);
    assert.equal(findScannerProgram('/bin/sh', path), undefined);
  });
});

/** A script that writes arrays in arrays, 4 million deep. */
function nested(): string {
  return `/usr/bin/yes '[[[[' | /usr/bin/head -n 1000000 > report.json; echo '{}' > bill.json`;
}
