/** Scans by a program of the server's machine, with a small database in its own format: the same for each program. */
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { manifestAccept } from '../../src/oci/media-type.ts';
import { amd64, arm64, imageOf, indexOf } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import type { CondaPackage } from '../world/conda-package.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

/** A package of Alpine 3.20, or of PyPI, with a vulnerability. */
export interface KnownVulnerability {
  readonly id: string;
  readonly severity: string;
  readonly packageName: string;
  /** The first version without it. */
  readonly fixedVersion: string;
  /** Default: a package of Alpine. */
  readonly ecosystem?: 'apk' | 'python';
}

/** A program that scans images, and what the tests need beside it. */
export interface TestedScanner {
  /** As in the report. */
  readonly name: string;
  readonly program: string;
  /** The page about CVE-2099-1 that it names. */
  readonly page?: string;
  /** Makes a database in the format of the program. */
  makeDatabase(folder: string, known: readonly KnownVulnerability[]): Promise<void>;
  /** Returns the ids of the vulnerabilities that the program itself finds in a bill of materials (SPDX). */
  foundIn(file: string, database: string): Promise<string[]>;
}

interface ScannedResponse extends ContainerResponse {
  readonly scanId: string;
}

interface Details {
  readonly status: string;
  readonly reason?: string;
  readonly scanner?: string;
  readonly scanned?: string;
  readonly counts?: Readonly<Record<string, number>>;
  readonly vulnerabilities?: readonly Readonly<Record<string, string>>[];
}

const release = 'ID=alpine\nNAME="Alpine Linux"\nVERSION_ID=3.20.3\n';
const installed = ['P:zlib', 'V:1.3.1-r1', 'A:x86_64', 'T:compression', 'L:Zlib', 'o:zlib'];

/** A Conda package of an old Python project. */
function ofPython(name: string, files: readonly string[] = []): CondaPackage {
  const metadata = `lib/python3.12/site-packages/${name}-1.0.dist-info/METADATA`;
  return {
    ...{ name, version: '1.0' },
    files: [
      { name: metadata, content: `Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0\n` },
      ...files.map(one => ({ name: one, content: '' })),
    ],
  };
}

/** Registers the tests of a program that scans images. */
export function testScans(scanner: TestedScanner): void {
  suite(`scans by ${scanner.name}`, () => {
    let registry: Registry;
    let database: TempDir;
    let channels: CondaChannels;
    let sluice: Sluice;

    before(async () => {
      const { program } = scanner;
      database = await makeTempDir('scanner');
      await scanner.makeDatabase(database.path, [
        { id: 'CVE-2099-1', severity: 'high', packageName: 'zlib', fixedVersion: '1.3.1-r9' },
        // This one is fixed in the installed version.
        { id: 'CVE-2099-2', severity: 'critical', packageName: 'zlib', fixedVersion: '1.3.1-r1' },
        ...['billed', 'read'].map((packageName, at) => ({
          id: `CVE-2099-${at + 3}`,
          ...{ severity: 'medium', packageName, fixedVersion: '2.0', ecosystem: 'python' as const },
        })),
      ]);
      registry = await startRegistry();
      channels = await startCondaChannels({
        // The second one has more in it than its bill says.
        bioconda: [ofPython('billed'), ofPython('read', ['share/java/one.jar'])],
      });
      const layer = await layerOf([
        { name: 'etc/os-release', content: release },
        { name: 'lib/apk/db/installed', content: `${installed.join('\n')}\n\n` },
      ]);
      const pusher = await Pusher.open(registry, 'alpine');
      const [one, other] = [
        imageOf({ layers: [layer] }),
        imageOf({ layers: [layer], architecture: 'arm64' }),
      ];
      await pusher.push(indexOf([amd64(one), arm64(other)]), '3.20');
      await pusher.close();
      sluice = await startSluice({
        config: {
          buildkit: ['off'],
          channels: channels.settings,
          builds: { pullWait: '200ms' },
          registries: { [registry.host]: { plainHttp: true } },
          scans: { program, database: database.path },
        },
      });
    });
    after(async () => {
      await sluice?.stop();
      await channels?.stop();
      await registry?.stop();
      await database?.remove();
    });

    const ask = async (body: object) =>
      (await sluice.request({
        containerImage: `${registry.host}/alpine:3.20`,
        scanMode: 'required',
        ...body,
      })) as ScannedResponse;
    const foundIn = async (bill: string): Promise<string[]> => {
      const file = database.join('bom.spdx.json');
      await writeFile(file, bill);
      return scanner.foundIn(file, database.path);
    };
    const finished = async (scanId: string): Promise<Details> => {
      let details: Details | undefined;
      await eventually('the scan ends', async () => {
        details = (await (await sluice.fetch(`/v1alpha1/scans/${scanId}`)).json()) as Details;
        return details.status !== 'PENDING';
      });
      return details as Details;
    };
    const pull = ({ targetImage, digest }: ScannedResponse) =>
      fetch(sluice.at(targetImage, `manifests/${digest}`), { headers: { accept: manifestAccept } });

    test('refuses an image with an old package, and lets it pass for a request that accepts it', async () => {
      const refused = await ask({});
      const details = await finished(refused.scanId);
      assert.equal(details.status, 'SUCCEEDED', details.reason);
      assert.match(details.scanner ?? '', new RegExp(`^${scanner.name}`));
      // Both platforms were scanned, and one package of both is one finding.
      assert.deepEqual(details.counts, { HIGH: 1 });
      const { layer, primaryUrl, ...found } = details.vulnerabilities?.[0] ?? {};
      assert.match(layer ?? '', /^sha256:/);
      assert.equal(primaryUrl, scanner.page);
      assert.deepEqual(found, {
        id: 'CVE-2099-1',
        severity: 'HIGH',
        title: 'zlib is unsafe',
        pkgName: 'zlib',
        installedVersion: '1.3.1-r1',
        fixedVersion: '1.3.1-r9',
      });
      const answer = await pull(refused);
      assert.equal(answer.status, 403);
      assert.match(await answer.text(), /vulnerabilities with severity: HIGH/);
      assert.equal((await pull(await ask({ scanMode: 'none' }))).status, 200);
      const accepted = await ask({ scanLevels: ['HIGH'] });
      await finished(accepted.scanId);
      assert.equal((await pull(accepted)).status, 200);
    });

    test('gives the findings as SARIF, and a bill of materials in which the program finds the same', async () => {
      const { scanId } = await ask({ scanMode: 'async' });
      await finished(scanId);
      const sarif = await sluice.fetch(`/v1alpha1/scans/${scanId}/sarif`);
      assert.equal(sarif.headers.get('content-type'), 'application/sarif+json');
      const { runs } = (await sarif.json()) as { runs: { results: { ruleId: string }[] }[] };
      assert.deepEqual(
        runs[0]?.results.map(({ ruleId }) => ruleId),
        ['CVE-2099-1'],
      );
      const printed = await sluiceCommand(['sbom', `${registry.host}/alpine:3.20`], {
        SLUICE_SERVER: sluice.url,
      });
      assert.equal(printed.code, 0, printed.stderr);
      assert.match(printed.stdout, /"OPERATING-SYSTEM"/);
      assert.deepEqual(await foundIn(printed.stdout), ['CVE-2099-1']);
      const page = await (await sluice.fetch(`/view/scans/${scanId}`)).text();
      assert.match(page, /href="[^"]*\/sarif"/);
      assert.match(page, /href="[^"]*\/spdx"/);
    });

    test('both documents are referrers of the image, for whoever may pull it', async () => {
      await using root = await openRoot('trixie');
      const { scanId, targetImage } = await ask({ scanMode: 'async' });
      await finished(scanId);
      const name = targetImage.slice(0, targetImage.lastIndexOf(':'));
      const tag = targetImage.slice(name.length + 1);
      const at = (path: string) => fetch(sluice.at(targetImage, path));
      const digest = (await at(`manifests/${tag}`)).headers.get('docker-content-digest') ?? '';
      type List = { manifests: { digest: string; artifactType: string }[] };
      const listed = async (query = '') => {
        const { manifests } = (await (await at(`referrers/${digest}${query}`)).json()) as List;
        return manifests.map(({ artifactType }) => artifactType);
      };
      assert.deepEqual(await listed(), ['application/sarif+json', 'application/spdx+json']);
      assert.deepEqual(await listed('?artifactType=application/spdx%2Bjson'), [
        'application/spdx+json',
      ]);
      assert.deepEqual(await listed('?artifactType=text/plain'), []);
      const oras = (...order: string[]) => root.exec(['oras', ...order]);
      const found = await oras('discover', '--plain-http', '--format', 'json', `${name}@${digest}`);
      assert.equal(found.code, 0, found.stderr);
      const { manifests } = JSON.parse(found.stdout) as { manifests: { reference: string }[] };
      assert.equal(manifests?.length, 2, found.stdout);
      for (const { reference } of manifests) {
        const pulled = await oras('pull', '--plain-http', '-o', '/tmp', reference);
        assert.equal(pulled.code, 0, pulled.stderr);
      }
      for (const [file, route] of [
        ['scan.sarif', 'sarif'],
        ['bom.spdx.json', 'spdx'],
      ] as const) {
        const text = await (await sluice.fetch(`/v1alpha1/scans/${scanId}/${route}`)).text();
        assert.equal(await readFile(join(root.directory, 'tmp', file), 'utf8'), text);
      }
      const part = await fetch(sluice.at(targetImage, `blobs/${digest.replace(/.$/, '0')}`));
      assert.equal(part.status, 404);
    });

    test('reads packages by their bill of materials, and the layers of the base and of packages with more in them', async () => {
      const packages = {
        type: 'CONDA',
        entries: ['billed', 'read'],
        channels: ['bioconda'],
        condaOpts: { baseImage: `${registry.host}/alpine:3.20`, basePackages: '' },
      };
      const built = await ask({ containerImage: undefined, packages, scanMode: 'async' });
      const details = await finished(built.scanId);
      const log = await (await sluice.fetch(`/v1alpha1/scans/${built.scanId}/logs`)).text();
      assert.equal(details.status, 'SUCCEEDED', details.reason);
      assert.match(log, /Reads 3 of 4 layers, and the bill of materials of the packages/);
      assert.deepEqual(
        details.vulnerabilities?.map(({ id, pkgName }) => [id, pkgName]).toSorted(),
        [
          ['CVE-2099-1', 'zlib'],
          ['CVE-2099-3', 'billed'],
          ['CVE-2099-4', 'read'],
        ],
        log,
      );
      assert.equal(details.scanned, 'bill');
      const page = await (await sluice.fetch(`/view/scans/${built.scanId}`)).text();
      assert.match(page, /<dt>Read<\/dt><dd>The bill of materials of the packages, and/);
      // The image itself is whole.
      const digest = built.targetImage.slice(built.targetImage.lastIndexOf(':') + 1);
      const whole = (await (await pull({ ...built, digest })).json()) as { layers: unknown[] };
      assert.equal(whole.layers.length, 4);
    });

    test('sluice scan prints a table, and its exit code is about the accepted severities', async () => {
      const scan = (...more: string[]) =>
        sluiceCommand(['scan', `${registry.host}/alpine:3.20`, ...more], {
          SLUICE_SERVER: sluice.url,
        });
      const { code, stdout } = await scan();
      assert.equal(code, 1);
      assert.match(
        stdout,
        /^SEVERITY +VULNERABILITY +PACKAGE +INSTALLED +FIXED\nHIGH +CVE-2099-1 +zlib +1\.3\.1-r1 +1\.3\.1-r9\n1 HIGH\n$/,
      );
      assert.equal((await scan('--levels', 'low,high')).code, 0);
      const wrong = await scan('--levels', 'severe');
      assert.equal(wrong.code, 2);
      assert.match(wrong.stderr, /expected CRITICAL, HIGH/);
    });

    test('reads frozen images and copies, of the own registry too, whose pulls it cannot hold back', async () => {
      const to = (place: string) => ({ buildRepository: `${place}/frozen`, scanMode: 'async' });
      for (const body of [
        { freeze: true, ...to(registry.host) },
        { mirror: true, ...to(registry.host) },
        // Into the own registry.
        { freeze: true, defaultRepository: true, scanMode: 'async' },
      ]) {
        const frozen = await ask(body);
        const details = await finished(frozen.scanId);
        assert.equal(details.status, 'SUCCEEDED', details.reason);
        assert.deepEqual(details.counts, { HIGH: 1 }, JSON.stringify(body));
      }
      await assert.rejects(ask({ freeze: true, ...to(registry.host), scanMode: 'required' }), {
        message: /pulls of frozen images and copies are not held back\. With 'async'/,
      });
    });

    test('leaves nothing of a scan in the data directory', async () => {
      assert.deepEqual(await readdir(join(sluice.data, 'scans/runs')), []);
    });
  });
}
