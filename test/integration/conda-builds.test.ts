/**
 * Everything around a Conda build, on a real BuildKit: referrers, freezing, formats, the command line.
 * To be fast, a shell script replaces the package manager: it understands the three commands of the recipe and creates
 * a program for each requested package. `conda-packages.test.ts` uses real packages.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { build, connect, memoryTree } from '../../src/buildkit/index.ts';
import { manifestAccept } from '../../src/oci/media-type.ts';
import { bytesOf } from '../corpus/content.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { layerOf } from '../corpus/layer.ts';
import { openApptainer } from '../world/apptainer.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { runWithPodman } from '../world/clients.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { assertSuccess } from './served.ts';

interface Index {
  readonly manifests: readonly { readonly digest: string; readonly artifactType: string }[];
}

const standIn = `#!/bin/sh
set -e
packages() { sed -n '/^dependencies:/,$ s/^  - "\\(.*\\)"/\\1/p' /sluice/conda.yml; }
case "$1" in
install)
  mkdir -p /opt/conda/bin
  for package in $(packages); do
    name=\${package##*::}; version=\${name#*=}; name=\${name%%=*}
    if [ "$name" = missing ]; then echo "nothing provides $name"; exit 1; fi
    printf '#!/bin/sh\\necho %s %s "$@"\\n' "$name" "$version" > "/opt/conda/bin/$name"
    chmod +x "/opt/conda/bin/$name"
  done ;;
env) echo '@EXPLICIT'; packages | sed 's#^#https://stand.in/#' ;;
clean) ;;
*) echo "unknown: $*"; exit 2 ;;
esac
`;

suite('Conda builds', () => {
  let registry: Registry;
  let buildkitd: Buildkitd;
  let sluice: Sluice;
  let base: string;
  let manager: string;

  before(async () => {
    registry = await startRegistry();
    base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
    manager = `${registry.host}/stand-in/micromamba:1`;
    buildkitd = await startBuildkitd();
    const client = connect(buildkitd.address);
    try {
      await build(client, {
        dockerfile: `FROM ${base}\nCOPY micromamba /bin/micromamba\n`,
        context: memoryTree({ micromamba: { data: standIn, mode: 0o755 } }),
        exporters: [{ type: 'image', name: manager, push: true }],
      });
    } finally {
      client.close();
    }
    sluice = await startSluice({
      config: {
        buildkit: [buildkitd.address],
        limits: { builds: { anonymous: 'off' } },
        freezeRepository: `${registry.host}/public/frozen`,
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    await buildkitd?.stop();
    await registry?.stop();
  });

  const request = async (packages: object, more: object = {}) => {
    const condaOpts = { mambaImage: manager, baseImage: base };
    const response = await sluice.request({
      packages: { type: 'CONDA', condaOpts, ...packages },
      ...more,
    });
    return response as typeof response & { buildId: string; cached: boolean };
  };
  const lockOf = (id: string) => sluice.fetch(`/v1alpha1/builds/${id}/condalock`);

  test('an added build context does not change the recipe', async () => {
    const { content } = await layerOf([
      { name: 'conda.yml', content: 'dependencies:\n  - "missing"\n' },
      { name: '.dockerignore', content: '*\n' },
    ]);
    const condaOpts = { mambaImage: manager, baseImage: base };
    const { targetImage } = await sluice.request({
      packages: { type: 'CONDA', condaOpts, entries: ['seqtk=1.4'] },
      buildContext: { location: `data:${bytesOf(content).toString('base64')}` },
    });
    await using root = await openRoot('forky');
    const ran = await runWithPodman(root, targetImage, { command: ['seqtk'] });
    assert.equal(assertSuccess(ran), 'seqtk 1.4\n');
  });

  test('an environment file gives the same image', async () => {
    const environment = 'channels: [conda-forge]\ndependencies: [fastp=0.23]\n';
    const response = await request({ environment: Buffer.from(environment).toString('base64') });
    const manifest = await fetch(
      sluice.at(response.targetImage, `manifests/${response.targetImage.split(':').at(-1)}`),
    );
    assert.equal(manifest.status, 200);
    assert.match(await (await lockOf(response.buildId)).text(), /fastp=0\.23/);
  });

  const fetchJson = async <T>(url: string): Promise<T> =>
    (await fetch(url, { headers: { accept: manifestAccept } })).json() as Promise<T>;
  const finished = async (id: string): Promise<string> => {
    const log = await (await sluice.fetch(`/v1alpha1/builds/${id}/logs?follow=true`)).text();
    const status = await (await sluice.fetch(`/v1alpha1/builds/${id}/status`)).json();
    assert.equal((status as { succeeded: boolean }).succeeded, true, log);
    const details = await (await sluice.fetch(`/v1alpha1/builds/${id}`)).json();
    return (details as { digest: string }).digest;
  };

  test('the lock file is a referrer of the image, also where the registry has no referrers API', async () => {
    const lockType = 'application/vnd.sluice.conda.lock.v1';
    const here = await request({ entries: ['lockme=1'] });
    const digest = await finished(here.buildId);
    const { manifests } = await fetchJson<Index>(
      sluice.at(here.targetImage, `referrers/${digest}`),
    );
    assert.deepEqual(
      manifests.map(({ artifactType }) => artifactType),
      [lockType],
    );

    const repository = `${registry.host}/conda/locked`;
    const there = await request({ entries: ['lockme=1'] }, { buildRepository: repository });
    const tag = (await finished(there.buildId)).replace(':', '-');
    const index = await fetchJson<Index>(`${registry.url}/v2/conda/locked/manifests/${tag}`);
    const [entry] = index.manifests;
    assert.equal(entry?.artifactType, lockType);
    const manifest = await fetchJson<{ layers: { digest: string }[] }>(
      `${registry.url}/v2/conda/locked/manifests/${entry?.digest}`,
    );
    const blob = `${registry.url}/v2/conda/locked/blobs/${manifest.layers[0]?.digest}`;
    assert.match(await (await fetch(blob)).text(), /^@EXPLICIT\n(?:.*\n)*.*\/lockme=1/);
    // The tag of the lock file is expected there.
    const logOf = async (id: string) => (await sluice.fetch(`/v1alpha1/builds/${id}/logs`)).text();
    assert.match(await logOf(there.buildId), new RegExp(`no referrers API, .* the tag ${tag}`));
    assert.doesNotMatch(await logOf(here.buildId), /referrers API/);
  });

  test('packages are frozen without a repository, as existing clients request it', async () => {
    // Every member that these clients send, including unset ones.
    const frozen = await request(
      { entries: ['samtools=1.22'], channels: ['conda-forge', 'bioconda'] },
      {
        ...{
          freeze: true,
          dryRun: false,
          mirror: false,
          format: null,
          nameStrategy: 'imageSuffix',
        },
        ...{ containerImage: null, containerFile: null, containerConfig: null, scanMode: null },
        timestamp: '2026-01-31T12:00:00.123456789+02:00',
        towerEndpoint: 'https://api.cloud.seqera.io',
      },
    );
    const place = `${registry.host}/public/frozen/samtools`;
    assert.match(frozen.targetImage, new RegExp(`^${place}:1\\.22--[0-9a-f]{32}$`));
    const digest = await finished(frozen.buildId);
    const tag = frozen.targetImage.split(':').at(-1);
    const manifest = await fetch(`${registry.url}/v2/public/frozen/samtools/manifests/${tag}`, {
      headers: { accept: manifestAccept },
    });
    assert.equal(manifest.headers.get('docker-content-digest'), digest);
  });

  test('the command line sets the images and the naming, with and without a server', async () => {
    const environment = { SLUICE_SERVER: sluice.url };
    const options = [
      ...['--conda', 'bwa=0.7', '--mamba-image', manager, '--base-image', base],
      ...['--base-packages', '', '--name-strategy', 'imageSuffix'],
    ];
    const built = await sluiceCommand(['build', ...options, '--await', '--json'], environment);
    const { containerImage } = JSON.parse(assertSuccess(built));
    assert.match(containerImage, /\/builds\/bwa:0\.7--[0-9a-f]{32}$/);
    const named = await sluiceCommand(['name', ...options], environment);
    assert.equal(assertSuccess(named).trim(), containerImage);
    const stray = await sluiceCommand(['name', '-f', '-', '--mamba-image', manager], environment);
    assert.match(
      stray.stderr,
      /--mamba-image requires --conda, --pip, --cran, --environment or --requirements/,
    );
  });

  test('the command line reads a Dockerfile from standard input, and explains how to follow the build', async () => {
    const environment = { SLUICE_SERVER: sluice.url };
    const dockerfile = `FROM ${base}\nRUN sleep 3; echo from the input\n`;
    const begun = await sluiceCommand(['build', '-f', '-'], environment, dockerfile);
    const [, id = ''] = /sluice logs -f ([0-9a-f]+_\d+)/.exec(begun.stderr) ?? [];
    assert.match(assertSuccess(begun), /\/builds:/);
    const log = await sluiceCommand(['logs', '-f', id], environment);
    assert.match(assertSuccess(log), /from the input/);
  });

  test('the command line builds, waits and shows the log', async () => {
    await using directory = await makeTempDir('build-command');
    const environment = { SLUICE_SERVER: sluice.url };
    const dockerfile = directory.join('Dockerfile');
    await writeFile(dockerfile, `FROM ${base}\nRUN echo by the command line\n`);
    const built = await sluiceCommand(['build', '--file', dockerfile, '--await'], environment);
    assert.match(assertSuccess(built), /^127\.0\.0\.1:\d+\/ct\/[a-z2-7]{32}\/builds:[0-9a-f]+\n$/);
    assert.match(built.stderr, /RUN echo by the command line/);
    const again = await sluiceCommand(['build', '--file', dockerfile, '--json'], environment);
    const response = JSON.parse(assertSuccess(again));
    assert.deepEqual([response.cached, response.succeeded], [true, true]);
    const log = await sluiceCommand(['logs', '-f', response.buildId], environment);
    assert.match(assertSuccess(log), /by the command line/);

    const name = await sluiceCommand(['name', '--file', dockerfile, '--json'], environment);
    const [key] = response.buildId.split('_');
    const expected = { key, name: `${sluice.host}/builds:${key}` };
    assert.deepEqual(JSON.parse(assertSuccess(name)), expected, 'the same without the server');

    await writeFile(dockerfile, `FROM ${base}\nRUN exit 3\n`);
    const failed = await sluiceCommand(['build', '--file', dockerfile, '--await'], environment);
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /exit code 3/);
    assert.equal((await sluiceCommand(['build', '--await'], environment)).code, 2);
    const wrong = await sluiceCommand(['build', '--file', '/nonexistent'], environment);
    assert.match(wrong.stderr, /Cannot read \/nonexistent/);
    const none = await sluiceCommand(['logs', 'none_1'], environment);
    assert.match(none.stderr, /The build does not exist/);
  });

  test('packages become a Singularity image', async () => {
    const sif = await request(
      { entries: ['samtools=1.21'] },
      { format: 'sif', freeze: true, buildRepository: `${registry.host}/conda/sif` },
    );
    await finished(sif.buildId);
    await using apptainer = await openApptainer();
    const run = ['exec', '--no-https', sif.targetImage, 'samtools', 'view'];
    assert.equal(assertSuccess(await apptainer.run(run)), 'samtools 1.21 view\n');
  });
});
