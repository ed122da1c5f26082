/** R packages on a real BuildKit, with a real R and renv, and a repository of small packages. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { imageOf } from '../corpus/image.ts';
import { tarOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { type FileLayer, keptLayer, writeFolderLayer } from '../sif/distribution-layer.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { runWithPodman } from '../world/clients.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { requireR } from '../world/tools.ts';
import { assertSuccess } from './served.ts';

interface RPackage {
  readonly name: string;
  readonly version: string;
  readonly imports?: string;
}

const leaf: RPackage = { name: 'leaf', version: '1.1.0' };
const oldLeaf: RPackage = { name: 'leaf', version: '1.0.0' };
const tree: RPackage = { name: 'tree', version: '2.0.0', imports: 'leaf' };

function descriptionOf({ name, version, imports }: RPackage): string {
  const lines = [
    ...[`Package: ${name}`, `Version: ${version}`, 'Title: Test', 'Description: A test.'],
    ...['Author: A', 'Maintainer: A <a@example.org>', 'License: MIT', 'NeedsCompilation: no'],
    ...(imports === undefined ? [] : [`Imports: ${imports}`]),
  ];
  return `${lines.join('\n')}\n`;
}

function sourceOf(rPackage: RPackage): Promise<Buffer> {
  const { name, version } = rPackage;
  return tarOf([
    { name: `${name}/` },
    { name: `${name}/DESCRIPTION`, content: descriptionOf(rPackage) },
    { name: `${name}/NAMESPACE`, content: 'export(said)\n' },
    { name: `${name}/R/` },
    { name: `${name}/R/said.R`, content: `said <- function() "${name} ${version}"\n` },
  ]);
}

/** Returns the files of a repository by their paths. Source: R Administration, Setting up a package repository. */
async function repositoryFiles(): Promise<ReadonlyMap<string, Buffer>> {
  const folder = '/src/contrib';
  const files = new Map<string, Buffer>();
  const add = async (place: string, one: RPackage) => {
    files.set(`${place}/${one.name}_${one.version}.tar.gz`, gzipSync(await sourceOf(one)));
  };
  await add(folder, leaf);
  await add(folder, tree);
  await add(`${folder}/Archive/leaf`, oldLeaf);
  files.set(`${folder}/PACKAGES`, Buffer.from([leaf, tree].map(descriptionOf).join('\n')));
  return files;
}

/** R with renv. */
async function rLayer(): Promise<FileLayer> {
  const folder = requireR();
  const sources = [folder, String(statSync(folder).mtimeMs)];
  return keptLayer('r', sources, path => writeFolderLayer(folder, path));
}

suite('R packages', () => {
  let registry: Registry;
  let buildkitd: Buildkitd;
  let server: Server;
  let channels: CondaChannels;
  let sluice: Sluice;
  let rImage: string;
  let repository: string;

  before(async () => {
    registry = await startRegistry();
    buildkitd = await startBuildkitd();
    const files = await repositoryFiles();
    server = createServer((request, response) => {
      const content = files.get(request.url ?? '');
      response.writeHead(content ? 200 : 404).end(content);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    repository = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    channels = await startCondaChannels({
      'conda-forge': [program('r-tree', '2.0.0'), program('procps-ng', '4.0')],
      bioconda: [program('bioconductor-deseq2', '1.42.0')],
    });
    // The base image of Conda packages.
    await pushDebianImage(registry, 'library/ubuntu', '24.04');
    rImage = `${registry.host}/r:4.5`;
    const run = { Env: ['PATH=/usr/bin:/bin', 'HOME=/root'] };
    const pusher = await Pusher.open(registry, 'r');
    await pusher.push(imageOf({ layers: [await rLayer()], run }), '4.5');
    await pusher.close();
    sluice = await startSluice({
      config: {
        buildkit: [buildkitd.address],
        limits: { builds: { anonymous: 'off' } },
        channels: channels.settings,
        registries: {
          [registry.host]: { plainHttp: true },
          'docker.io': { mirrors: [registry.host] },
        },
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    server?.close();
    await channels?.stop();
    await buildkitd?.stop();
    await registry?.stop();
  });

  const request = async (packages: object) => {
    const response = await sluice.request({
      packages: { type: 'CRAN', channels: [repository], cranOpts: { rImage }, ...packages },
    });
    return response as typeof response & { readonly buildId: string };
  };
  const lockOf = async (buildId: string) => {
    const log = await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`);
    const shown = await log.text();
    const response = await sluice.fetch(`/v1alpha1/builds/${buildId}/lock`);
    assert.equal(response.status, 200, shown);
    return response.text();
  };
  const versionsIn = (lock: string) => {
    const { Packages: packages } = JSON.parse(lock) as {
      Packages: Record<string, { Version: string }>;
    };
    return Object.entries(packages).map(([name, { Version: version }]) => `${name} ${version}`);
  };

  test('packages become an image in which they run, and its lock file gives the same ones again', async () => {
    const pinned = await request({ entries: ['tree', 'leaf==1.0.0'] });
    assert.match(pinned.targetImage, /leaf-1\.0\.0_tree--/);
    const lock = await lockOf(pinned.buildId);
    assert.deepEqual(versionsIn(lock), ['leaf 1.0.0', 'tree 2.0.0']);
    const said = ['Rscript', '-e', 'cat(tree::said(), leaf::said())'];
    await using root = await openRoot('forky');
    const run = async (image: string, command: readonly string[]) =>
      assertSuccess(await runWithPodman(root, image, { command: [...command] }));
    assert.equal(await run(pinned.targetImage, said), 'tree 2.0.0 leaf 1.0.0');

    // The repository has a newer version, which the lock file does not name.
    const again = await request({
      environment: Buffer.from(lock).toString('base64'),
      channels: [],
    });
    assert.deepEqual(versionsIn(await lockOf(again.buildId)), ['leaf 1.0.0', 'tree 2.0.0']);
    assert.equal(await run(again.targetImage, said), 'tree 2.0.0 leaf 1.0.0');
  });

  test('a dry run says when all packages exist as Conda packages', async () => {
    const warningsFor = async (entries: readonly string[]) => {
      const packages = { type: 'CRAN', entries, channels: [repository], cranOpts: { rImage } };
      const { warnings = [], containerFile } = (await sluice.request({
        packages,
        dryRun: true,
      })) as unknown as { warnings?: string[]; containerFile: string };
      assert.match(containerFile, /^FROM \S+\/r:4\.5 AS image$/m);
      return warnings.join('\n');
    };
    assert.match(
      await warningsFor(['tree', 'bioc::DESeq2@1.42.0']),
      /All these packages .* with the entries bioconductor-deseq2=1\.42\.0 r-tree$/,
    );
    assert.equal(await warningsFor(['tree', 'leaf']), '');
  });

  test('a package that does not exist fails the build with its name', async () => {
    const { targetImage } = await request({ entries: ['missing'] });
    const response = await fetch(
      sluice.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`),
    );
    assert.equal(response.status, 400);
    assert.match(await response.text(), /missing/);
  });
});
