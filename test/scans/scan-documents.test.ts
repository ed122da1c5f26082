/** Documents about scans: SARIF, SPDX, and how they are kept. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { writeSarif } from '../../src/scans/documents/write-sarif.ts';
import { writeSpdx } from '../../src/scans/documents/write-spdx.ts';
import type { FoundInImage, FoundPackage } from '../../src/scans/found-in-image.ts';
import { packDetails, unpackDetails } from '../../src/scans/scan-details.ts';
import type { Severity, Vulnerability } from '../../src/scans/vulnerability.ts';
import { boundMs, longestBlock } from '../world/longest-block.ts';

const image = `registry.example.com:5000/team/app@sha256:${'a'.repeat(64)}`;
const scan = { image, address: 'https://sluice/spdx', finishedAt: 0, scanner: 'Grype 0.121.2' };

const found = (count: number, severity: Severity = 'HIGH', text = () => 'x'): Vulnerability[] =>
  Array.from({ length: count }, (_, at) => ({
    ...{ id: `CVE-${at}`, severity, title: text(), pkgName: text(), installedVersion: '1' },
  }));
const inImage = (
  vulnerabilities: readonly Vulnerability[],
  packages?: readonly FoundPackage[],
): FoundInImage => ({
  vulnerabilities: new Map(vulnerabilities.map((one, at) => [String(at), one])),
  packages: packages && new Map(packages.map((one, at) => [String(at), one])),
});

test('SPDX: licenses of its list, others by reference, and package URLs', async () => {
  const packages: FoundPackage[] = [
    { name: 'zlib', version: '1', purl: 'pkg:apk/alpine/zlib@1', licenses: ['Zlib'] },
    { name: 'two\u202e\nlines', version: '', purl: 'pkg:not a url', licenses: [] },
    { name: 'odd', version: '2', licenses: ['MIT OR Apache-2.0', 'Our own', 'LicenseRef-x'] },
    { name: '', version: '__proto__', licenses: ['constructor'] },
  ];
  const text = await writeSpdx(scan, packages);
  const { packages: listed, relationships, hasExtractedLicensingInfos } = JSON.parse(text);
  const [whole, zlib, two, odd, last] = listed;
  assert.equal(whole.versionInfo, `sha256:${'a'.repeat(64)}`);
  assert.equal(zlib.licenseDeclared, 'Zlib');
  assert.equal(zlib.externalRefs[0].referenceLocator, 'pkg:apk/alpine/zlib@1');
  assert.equal(two.name, 'two  lines');
  assert.equal(two.externalRefs, undefined);
  assert.match(odd.licenseDeclared, /^\(MIT OR Apache-2\.0\)( AND LicenseRef-[0-9a-f]{12}){2}$/);
  assert.equal(last.name, 'NOASSERTION');
  assert.deepEqual(
    hasExtractedLicensingInfos.map((one: { name: string }) => one.name),
    ['Our own', 'LicenseRef-x', 'constructor'],
  );
  assert.equal(relationships.length, 5);
});

test('SARIF: a rule for each vulnerability, a result for each package, and what is left out', async () => {
  const [one, other] = found(2) as [Vulnerability, Vulnerability];
  const critical: Vulnerability = {
    ...{ ...one, severity: 'CRITICAL', pkgName: '<script>', fixedVersion: '2' },
    title: '[see](https://example.com)',
    primaryUrl: 'https://example.com/cve',
  };
  const text = await writeSarif(scan, { counts: { CRITICAL: 1, HIGH: 2, LOW: 7 } }, [
    ...[critical, one, other],
  ]);
  const { version, runs } = JSON.parse(text);
  assert.equal(version, '2.1.0');
  const [{ tool, results, invocations }] = runs;
  assert.equal(tool.driver.name, 'Grype');
  assert.equal(tool.driver.version, '0.121.2');
  assert.deepEqual(
    tool.driver.rules.map((rule: { id: string }) => rule.id),
    ['CVE-0', 'CVE-1'],
  );
  assert.deepEqual(
    results.map((result: { ruleIndex: number; level: string }) => [result.ruleIndex, result.level]),
    [
      [0, 'error'],
      [0, 'error'],
      [1, 'error'],
    ],
  );
  assert.equal(results[0].locations[0].physicalLocation.artifactLocation.uri, 'team/app');
  assert.match(results[0].message.text, /<script> 1 \(fixed in 2\) in registry/);
  assert.ok(!text.includes('[see]'));
  assert.match(invocations[0].toolExecutionNotifications[0].message.text, /^7 less severe/);
});

test('what was found is kept packed, and less of it when it is too large', async () => {
  const packages = [{ name: 'zlib', version: '1' }];
  const small = inImage([...found(1, 'LOW'), ...found(1, 'CRITICAL')], packages);
  const details = await unpackDetails(await packDetails(small));
  assert.deepEqual(
    details.vulnerabilities.map(one => one.severity),
    ['CRITICAL', 'LOW'],
  );
  assert.deepEqual(details.packages, packages);
  const adapter = await unpackDetails(await packDetails(inImage(found(1))));
  assert.equal(adapter.packages, undefined);
  const noise = () => randomBytes(60).toString('base64');
  const names = Array.from({ length: 15_000 }, () => ({ name: noise(), version: '1' }));
  const many = await unpackDetails(await packDetails(inImage(found(3), names)));
  assert.equal(many.packages, undefined);
  assert.equal(many.vulnerabilities.length, 3);
  const packed = await packDetails(inImage(found(9000, 'HIGH', noise)));
  assert.ok(packed.length <= 256 * 1024, `${packed.length} bytes`);
  const most = await unpackDetails(packed);
  assert.equal(most.vulnerabilities.length, 500);
});

test('large documents do not hold up other work', async () => {
  const packages = Array.from({ length: 20_000 }, (_, at) => ({
    ...{ name: `package-${at}`, version: '1', purl: `pkg:npm/package-${at}@1` },
    licenses: ['MIT'],
  }));
  const { cpuMs } = await longestBlock(async () => {
    const packed = await packDetails(inImage(found(5000), packages));
    const details = await unpackDetails(packed);
    await writeSpdx(scan, details.packages ?? []);
    await writeSarif(scan, { counts: {} }, details.vulnerabilities);
  });
  assert.ok(cpuMs < boundMs(50), `${cpuMs} ms`);
});
