/** The commands of docs/coming-from-wave.md, as the requests that `wave` sends for them. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { type FaultWorld, startFaultWorld, stopWithoutErrors } from '../faults/fault-world.ts';
import { emptyLayer } from '../faults/scripted-upstream.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const digest = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
const layer = {
  location: `data:${emptyLayer.toString('base64')}`,
  gzipDigest: digest(emptyLayer),
  gzipSize: emptyLayer.length,
  tarDigest: digest(gunzipSync(emptyLayer)),
};
// What wave adds to every request, and to every one for Conda packages.
const always = { freeze: false, timestamp: '2026-01-02T03:04:05.678901+01:00' };
const condaOpts = {
  mambaImage: 'mambaorg/micromamba:1.5.10-noble',
  basePackages: 'conda-forge::procps-ng',
};
const channels = ['conda-forge', 'bioconda'];
const environment = 'channels:\n- bioconda\n- conda-forge\ndependencies:\n- bamtools=2.5.2\n';

interface Command {
  /** As the page shows it. */
  readonly line: string;
  readonly body: (image: string) => object;
  /** The promise of the page: an image with a matching name, or a refusal with this message. */
  readonly image?: RegExp;
  readonly refusal?: RegExp;
  readonly warning?: RegExp;
}

const commands: readonly Command[] = [
  {
    line: '-i alpine --layer new-layer',
    body: containerImage => ({ containerImage, containerConfig: { layers: [layer] } }),
    image: /team\/app/,
  },
  {
    line: '-i alpine --config-env A=1 --config-entrypoint',
    body: containerImage => ({
      containerImage,
      containerConfig: { entrypoint: ['/opt/start.sh'], env: ['A=1'], layers: [] },
    }),
    image: /team\/app/,
  },
  {
    line: '-f Dockerfile --context build-context',
    body: image => ({
      containerFile: base64(`FROM ${image}\nADD hello.sh /usr/local/bin/\n`),
      buildContext: layer,
    }),
    image: /\/builds:/,
  },
  {
    line: '--conda-package bamtools=2.5.2 --conda-package samtools=1.17',
    body: () => ({
      packages: {
        ...{ type: 'CONDA', entries: ['bamtools=2.5.2', 'samtools=1.17'] },
        ...{ channels, condaOpts },
      },
    }),
    image: /\/builds:bamtools-2\.5\.2_samtools-1\.17--[0-9a-f]{32}$/,
  },
  {
    line: '--conda-file conda.yaml',
    body: () => ({ packages: { type: 'CONDA', environment: base64(environment), condaOpts } }),
    image: /\/builds:bamtools-2\.5\.2--[0-9a-f]{32}$/,
  },
  {
    line: '--conda-package https://.../conda-lock.yml',
    body: () => ({
      packages: {
        ...{ type: 'CONDA', entries: ['https://prefix.dev/envs/someone/wave/x/conda-lock.yml'] },
        ...{ channels, condaOpts },
      },
    }),
    image: /\/builds:/,
  },
  {
    line: '--conda-package fastp --platform linux/arm64',
    body: () => ({
      packages: { type: 'CONDA', entries: ['fastp'], channels, condaOpts },
      containerPlatform: 'linux/arm64',
    }),
    image: /\/builds:fastp--[0-9a-f]{32}$/,
  },
  {
    line: '--singularity --conda-package ... --build-repo ... --freeze --await',
    body: () => ({
      packages: { type: 'CONDA', entries: ['bamtools=2.5.2'], channels, condaOpts },
      ...{ format: 'sif', freeze: true, buildRepository: 'docker.io/user/repo' },
    }),
    image: /^oras:\/\/docker\.io\/user\/repo:bamtools-2\.5\.2--[0-9a-f]{32}$/,
  },
  {
    line: '--conda-package ... --freeze',
    body: () => ({
      packages: { type: 'CONDA', entries: ['bamtools=2.5.2'], channels, condaOpts },
      freeze: true,
    }),
    refusal: /'buildRepository'/,
  },
  {
    line: '--mirror',
    body: containerImage => ({ containerImage, mirror: true, buildRepository: 'quay.io/me' }),
    image: /^quay\.io\/me\/team\/app:latest$/,
  },
  {
    line: '--scan-mode',
    body: containerImage => ({ containerImage, scanMode: 'required' }),
    refusal: /'scanMode' cannot be honoured/,
  },
  {
    line: '--include',
    body: containerImage => ({ containerImage, containerIncludes: [containerImage] }),
    image: /team\/app/,
  },
  {
    line: '--build-template',
    body: () => ({
      packages: { type: 'CONDA', entries: ['fastp'], channels, condaOpts },
      buildTemplate: 'conda/pixi:v1',
    }),
    image: /\/builds:fastp--[0-9a-f]{32}$/,
    warning: /^'buildTemplate' is ignored: /,
  },
];

const page = readFileSync(new URL('../../docs/coming-from-wave.md', import.meta.url), 'utf8');
let world: FaultWorld;
let image: string;

before(async () => {
  world = await startFaultWorld();
  image = world.upstreams.relay.image('team/app').name;
});
after(async () => {
  await stopWithoutErrors(world);
  await world[Symbol.asyncDispose]();
});

for (const { line, body, image: name, refusal, warning } of commands) {
  test(`wave ${line}`, async () => {
    assert.ok(page.includes(line), 'the page has the command');
    const asked = { ...always, ...body(image), dryRun: true };
    const reply = await world.ask(asked);
    const text = reply.body.toString();
    if (refusal) {
      assert.equal(reply.status, 400, text);
      assert.match(JSON.parse(text).message, refusal);
    } else {
      assert.equal(reply.status, 200, text);
      assert.match(JSON.parse(text).targetImage, name as RegExp);
      const { warnings } = JSON.parse(text);
      if (warning) assert.match(warnings.join('\n'), warning);
      else assert.equal(warnings, undefined);
    }
  });
}

test('wave --inspect and wave --info', async () => {
  const inspected = await world.sluice.fetch('/v1alpha1/inspect', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ containerImage: image }),
  });
  assert.equal(inspected.status, 200);
  const { container } = (await inspected.json()) as { container: { imageName: string } };
  assert.equal(container.imageName, 'team/app');
  const info = await world.sluice.fetch('/service-info');
  const { serviceInfo } = (await info.json()) as { serviceInfo: { version: string } };
  assert.match(serviceInfo.version, /\d/);
});
