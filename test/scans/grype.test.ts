/** Scans by Grype as a program of the server's machine, with a small database in its own format. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { manifestAccept } from '../../src/oci/media-type.ts';
import { amd64, arm64, imageOf, indexOf } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { requireGrype } from '../world/tools.ts';
import { makeGrypeDatabase } from './grype-database.ts';

interface ScannedResponse extends ContainerResponse {
  readonly scanId: string;
}

interface Details {
  readonly status: string;
  readonly reason?: string;
  readonly scanner?: string;
  readonly counts?: Readonly<Record<string, number>>;
  readonly vulnerabilities?: readonly Readonly<Record<string, string>>[];
}

const release = 'ID=alpine\nNAME="Alpine Linux"\nVERSION_ID=3.20.3\n';
const installed = ['P:zlib', 'V:1.3.1-r1', 'A:x86_64', 'T:compression', 'L:Zlib', 'o:zlib'];

suite('scans by grype', () => {
  let registry: Registry;
  let database: TempDir;
  let sluice: Sluice;

  before(async () => {
    const program = requireGrype();
    database = await makeTempDir('grype');
    await makeGrypeDatabase(database.path, [
      { id: 'CVE-2099-1', severity: 'high', packageName: 'zlib', fixedVersion: '1.3.1-r9' },
      // This one is fixed in the installed version.
      { id: 'CVE-2099-2', severity: 'critical', packageName: 'zlib', fixedVersion: '1.3.1-r1' },
    ]);
    registry = await startRegistry();
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
        builds: { pullWait: '200ms' },
        registries: { [registry.host]: { plainHttp: true } },
        scans: { program, database: database.path },
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
    await database?.remove();
  });

  const ask = async (body: object) =>
    (await sluice.request({
      containerImage: `${registry.host}/alpine:3.20`,
      scanMode: 'required',
      ...body,
    })) as ScannedResponse;
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
    assert.match(details.scanner ?? '', /^Grype/);
    // Both platforms were scanned, and one package of both is one finding.
    assert.deepEqual(details.counts, { HIGH: 1 });
    const { layer, ...found } = details.vulnerabilities?.[0] ?? {};
    assert.match(layer ?? '', /^sha256:/);
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

  test('leaves nothing of a scan in the data directory', async () => {
    assert.deepEqual(await readdir(join(sluice.data, 'scans/runs')), []);
  });
});
