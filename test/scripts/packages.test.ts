/** The packages of npm, installed in empty directories as their users install them. */
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { digestOf, manifestAccept } from '../../src/oci/index.ts';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { plainRegistries } from '../integration/served.ts';
import { loadFirstView } from '../pages/page-files.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import {
  filesIn,
  install,
  type Major,
  majors,
  nodeOf,
  pack,
  project,
  runWell,
} from './installed.ts';

const mostClientBytes = 1_000_000;

suite('packages', () => {
  let directory: TempDir;
  let registry: Registry;
  let pushed: Map<string, Pushed>;
  let tarballs: { server: string; client: string };

  before(async () => {
    directory = await makeTempDir('packages');
    registry = await startRegistry();
    pushed = await pushCorpus(registry, ['cfg:full']);
    tarballs = await pack(directory.join('made'));
    const { devDependencies } = JSON.parse(await readFile(join(project, 'package.json'), 'utf8'));
    const types = `@types/node@${devDependencies['@types/node']}`;
    await install(directory.join('server'), 20, [tarballs.server, types]);
  });
  after(async () => {
    await registry?.stop();
    await directory?.remove();
  });

  const clientOf = (major: Major) => directory.join(`client-${major}`);
  const client = (major: Major, ...args: readonly string[]) =>
    runWell([nodeOf(major), join(clientOf(major), 'node_modules/.bin/sluice'), ...args], '/');

  for (const major of majors) {
    test(`the tour on Node ${major}: a server, a request, a pull, pages`, async () => {
      await install(clientOf(major), major, [tarballs.client]);
      const program = directory.join('server/node_modules/.bin/sluice');
      await using sluice = await startSluice({
        command: [nodeOf(major), program, 'serve'],
        config: plainRegistries(registry.host),
      });
      const image = pushed.get('cfg:full')?.reference ?? '';
      const request = ['request', '--server', sluice.url, '--image', image, '--env', 'GREETING=hi'];
      const name = (await client(major, ...request)).trim();
      const config = await pull(sluice, name);
      assert.ok(config.env.includes('GREETING=hi'));
      const { files } = await loadFirstView(sluice.url, '/');
      assert.ok(files.length >= 3, files.join());
      const { html } = await loadFirstView(sluice.url, '/docs');
      const [, library = ''] = /data-library="([^"]+)"/.exec(html) ?? [];
      assert.equal((await sluice.fetch(library)).status, 200);
    });
  }

  test('the client is small and has no native modules', async () => {
    const { bytes, paths } = filesIn(join(clientOf(24), 'node_modules'));
    assert.ok(bytes < mostClientBytes, `${bytes} bytes`);
    assert.deepEqual(
      paths.filter(path => path.endsWith('.node')),
      [],
    );
    const file = join(clientOf(24), 'node_modules/sluice-cli/package.json');
    assert.deepEqual(Object.keys(JSON.parse(await readFile(file, 'utf8')).dependencies), []);
  });

  test('the client lists its commands and explains what it lacks', async () => {
    const help = await client(24, '--help');
    assert.match(help, /^ +request /m);
    assert.doesNotMatch(help, /^ +serve /m);
  });

  test('examples of the libraries type-check and run outside of the project', async () => {
    await using buildkitd = await startBuildkitd();
    const folder = directory.join('server');
    const files = [
      ...(await writeExamples(folder, 'oci')),
      ...(await writeExamples(folder, 'buildkit')),
    ];
    const compilerOptions = {
      ...{ module: 'nodenext', target: 'es2023', strict: true, noEmit: true, types: ['node'] },
      exactOptionalPropertyTypes: true,
    };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
    await runWell([join(project, 'node_modules/.bin/tsc'), '-p', folder], folder);
    // A build sends the files of this directory.
    const empty = directory.join('empty');
    await mkdir(empty);
    const env = { BUILDKIT_HOST: buildkitd.address, REGISTRY: registry.host };
    for (const major of [22, 24] as const) {
      for (const file of files) await runWell([nodeOf(major), join(folder, file)], empty, env);
    }
    const tag = await fetch(`${registry.url}/v2/team/app/manifests/1`, {
      method: 'HEAD',
      headers: { accept: manifestAccept },
    });
    assert.equal(tag.status, 200);
  });
});

/** Pulls everything of a served image, checks the digests, and returns what its config says. */
async function pull(sluice: Sluice, name: string): Promise<{ env: string[] }> {
  const accept = manifestAccept;
  const tag = name.slice(name.lastIndexOf(':') + 1);
  const response = await fetch(sluice.at(name, `manifests/${tag}`), { headers: { accept } });
  assert.equal(response.status, 200);
  const { config, layers } = (await response.json()) as Record<'config', Part> & { layers: Part[] };
  for (const { digest } of layers) await blob(sluice, name, digest);
  const document = JSON.parse((await blob(sluice, name, config.digest)).toString());
  return { env: document.config.Env };
}

interface Part {
  readonly digest: string;
}

async function blob(sluice: Sluice, name: string, digest: string): Promise<Buffer> {
  const response = await fetch(sluice.at(name, `blobs/${digest}`));
  const bytes = Buffer.from(await response.arrayBuffer());
  assert.equal(digestOf(bytes), digest);
  return bytes;
}

/** Writes each example of a library's README into its own file, and returns the names of the files. */
async function writeExamples(folder: string, library: string): Promise<string[]> {
  const readme = await readFile(join(project, 'src', library, 'README.md'), 'utf8');
  const examples = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, text = '']) => text);
  assert.ok(examples.length > 2);
  const names = examples.map((_text, index) => `${library}-${index + 1}.ts`);
  for (const [index, text] of examples.entries()) {
    await writeFile(join(folder, names[index] ?? ''), text);
  }
  return names;
}
