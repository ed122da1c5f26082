/** Documents about a solution, read by the programs that they are for. */
import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';
import { Version } from '@cyclonedx/cyclonedx-library/Spec';
import { JsonStrictValidator } from '@cyclonedx/cyclonedx-library/Validation';
import { type Bill, billOf, linkOrder, packBill } from '../../../src/conda/bills/bill.ts';
import type { DocumentName } from '../../../src/conda/bills/document-form.ts';
import { documentsOf, writeDocument } from '../../../src/conda/bills/write-documents.ts';
import { readDocument } from './read-document.ts';
import { channel, layered, solutionFor } from './solution.ts';

const solution = solutionFor('linux-aarch64', 'linux-64');

async function written(name: DocumentName, bill: Bill): Promise<string> {
  return writeDocument(await packBill(bill), name);
}

suite('documents about a solution', () => {
  let bill: Bill;
  before(() => {
    bill = billOf(solution);
  });

  test('pixi reads its lock file and finds the same packages', async () => {
    const found = await readDocument('pixi', await written('pixi', bill));
    const platforms = bill.platforms.map(({ subdir, packages }) => [
      subdir,
      packages
        .map(({ url, name, version, build, subdir, noarch = null, ...more }) => {
          const { md5, sha256, size, depends, constrains, license } = more;
          const it = { url, name, version, build, subdir, noarch, md5, sha256, size };
          return { ...it, depends, constrains, license };
        })
        .sort((one, other) => (one.url < other.url ? -1 : 1)),
    ]);
    assert.deepEqual(found, {
      channels: [`${channel}/`],
      platforms: Object.fromEntries(platforms),
    });
  });

  test('conda-lock reads its lock file and finds the same packages', async () => {
    const found = (await readDocument('conda-lock', await written('conda-lock', bill))) as {
      version: number;
      platforms: string[];
      hashes: Record<string, string>;
      packages: { name: string; platform: string; dependencies: unknown; url: string }[];
    };
    assert.equal(found.version, 1);
    assert.deepEqual(found.platforms, ['linux-64', 'linux-aarch64']);
    assert.deepEqual(Object.keys(found.hashes), found.platforms);
    const expected = bill.platforms.flatMap(({ packages }) => packages.map(({ url }) => url));
    assert.deepEqual(found.packages.map(({ url }) => url).sort(), expected.sort());
    const requests = found.packages.find(({ name }) => name === 'requests');
    assert.deepEqual(requests?.dependencies, {
      python: '>=3.7,<4',
      urllib3: '[version=">=1.21"]',
      odd: '',
    });
  });

  test('an explicit lock file has a part for each platform, dependencies first', async () => {
    const text = await written('explicit', bill);
    const parts = text.split(/^# platform: /m).slice(1);
    const names = parts.map(part => {
      const [subdir, mark, ...lines] = part.trimEnd().split('\n');
      assert.equal(mark, '@EXPLICIT');
      return [subdir, lines.map(line => /([a-z0-9]+)-[^/]*\.conda#[0-9a-f]{32}$/.exec(line)?.[1])];
    });
    const order = ['bzip2', 'null', 'tzdata', 'python', 'requests', 'odd'];
    assert.deepEqual(names, [
      ['linux-64', order],
      ['linux-aarch64', order],
    ]);
  });

  test('an SPDX document is valid, with purl, license and digests of each package', async () => {
    const found = (await readDocument('spdx', await written('spdx', bill))) as {
      faults: string[];
      packages: { name: string; license: string; sums: object; purl: string[] }[];
    };
    assert.deepEqual(found.faults, []);
    const names = found.packages.map(({ name }) => name);
    // Packages for no architecture are shared by the platforms; the first is the image.
    assert.equal(names.length, 1 + 3 * 2 + 3);
    const { packages = [] } = bill.platforms[0] ?? {};
    const requests = packages.find(({ name }) => name === 'requests');
    assert.deepEqual(
      found.packages.find(({ name }) => name === 'requests'),
      {
        name: 'requests',
        license: 'Apache-2.0',
        sums: { SHA256: requests?.sha256, MD5: requests?.md5 },
        purl: [
          'pkg:conda/requests@2.31.0?build=pyhd8ed1ab_0&channel=conda-forge&subdir=noarch&type=conda',
        ],
      },
    );
    const licenses = new Map(found.packages.map(({ name, license }) => [name, license]));
    assert.equal(licenses.get('null'), 'GPL-2.0-or-later AND MIT');
    assert.match(licenses.get('odd') ?? '', /^LicenseRef-/);
  });

  test('a CycloneDX document is valid, with purl, license and digests of each package', async () => {
    const text = await written('cyclonedx', bill);
    assert.equal(await new JsonStrictValidator(Version.v1dot6).validate(text), null);
    const { components, dependencies, metadata } = JSON.parse(text);
    assert.equal(metadata.component.name, solution.image);
    assert.equal(components.length, 3 * 2 + 3);
    const python = components.find(({ name }: { name: string }) => name === 'python');
    assert.deepEqual(python.licenses, [{ license: { id: 'Python-2.0' } }]);
    assert.equal(python.description, 'A "programming" language: for all');
    assert.deepEqual(
      python.hashes.map(({ alg }: { alg: string }) => alg),
      ['MD5', 'SHA-256'],
    );
    assert.equal(
      python.purl,
      'pkg:conda/python@3.12.3?build=hab00c5b_0_cpython&channel=conda-forge&subdir=linux-64&type=conda',
    );
    const needs = dependencies.find(({ ref }: { ref: string }) => ref === python['bom-ref']);
    assert.deepEqual(
      needs.dependsOn.map((ref: string) => /conda\/([^@]+)/.exec(ref)?.[1]),
      ['bzip2', 'tzdata'],
    );
  });

  test('the same solution gives the same bytes, in whatever order its packages are', async () => {
    const again = structuredClone(solution);
    const turned = {
      ...again,
      platforms: again.platforms
        .map(it => ({ ...it, packages: it.packages.toReversed() }))
        .toReversed(),
    };
    const [first, second] = [await documentsOf(solution), await documentsOf(turned)];
    assert.deepEqual(first, second);
    assert.deepEqual(
      first.attached.map(({ title }) => title),
      ['conda-lock.txt', 'bom.spdx.json', 'bom.cdx.json'],
    );
    for (const { name, text } of first.attached) {
      assert.equal(await writeDocument(first.solution, name), text);
      const ids = /urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"/;
      assert.equal(ids.test(text), name !== 'explicit');
    }
  });

  test('a conda-lock file of a package without MD5 is refused; the other forms exist', async () => {
    const packages = [layered('new', '1', 'linux-64', { md5: undefined })];
    const odd = billOf({ ...solution, platforms: [{ subdir: 'linux-64', packages }] });
    await assert.rejects(written('conda-lock', odd), {
      kind: 'not-found',
      message: /MD5.*new-1-0/,
    });
    assert.match(await written('explicit', odd), /#sha256:[0-9a-f]{64}\n$/);
    assert.match(await written('pixi', odd), /sha256: /);
  });

  test('a package has the digests of its archive, also those that the request did not state', () => {
    const sums = { sha256: 'a'.repeat(64), md5: 'b'.repeat(32), size: 7 };
    const stated = layered('a', '1', 'linux-64', { md5: undefined });
    const platforms = [{ subdir: 'linux-64', packages: [{ ...stated, sums }] }];
    const [found] = billOf({ ...solution, platforms }).platforms;
    const [{ sha256, md5, size } = {} as never] = found?.packages ?? [];
    assert.deepEqual({ sha256, md5, size }, sums);
  });

  test('the channel counts before the package, and odd statements do no harm', async () => {
    const [it] = [layered('a', '1', 'linux-64', { index: { license: 'MIT', depends: ['old'] } })];
    const record = { license: 'Zlib', depends: ['b'], constrains: 'none', timestamp: 'now' };
    const about = { home: ['javascript:alert(1)'], summary: 7, license: {} };
    const odd = { ...it, about, package: { ...it?.package, record, depends: ['b'] } };
    const platforms = [{ subdir: 'linux-64', packages: [odd as typeof it] }];
    const [found] = billOf({ ...solution, platforms } as typeof solution).platforms;
    const [{ license, depends, constrains, timestamp } = {} as never] = found?.packages ?? [];
    assert.deepEqual([license, depends, constrains, timestamp], ['Zlib', ['b'], [], undefined]);
    const text = await written('cyclonedx', billOf({ ...solution, platforms } as typeof solution));
    assert.equal(await new JsonStrictValidator(Version.v1dot6).validate(text), null);
    assert.doesNotMatch(text, /javascript:/);
  });

  test('a chain of 20,000 packages is put in order', () => {
    const packages = Array.from({ length: 20_000 }, (_, position) =>
      layered(`p${position}`, '1', 'noarch', { depends: [`p${position + 1}`] }),
    );
    const long = billOf({ ...solution, platforms: [{ subdir: 'linux-64', packages }] });
    assert.equal(linkOrder(long.platforms[0]?.packages ?? [])[0]?.name, 'p19999');
  });
});
