/** The command line against a running server. */
import assert from 'node:assert/strict';
import { chmod, chown, lutimes, mkdir, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { freePort } from '../world/free-port.ts';
import type { Result } from '../world/program.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { assertSuccess, fetchJson, injected, plainRegistries } from './served.ts';

suite('command line', { concurrency: 2 }, () => {
  let registry: Registry;
  let sluice: Sluice;
  let pushed: Map<string, Pushed>;
  let directory: TempDir;

  before(async () => {
    registry = await startRegistry();
    pushed = await pushCorpus(registry, ['cfg:full', 'multi:index', 'multi:list', 'layers:127']);
    sluice = await startSluice({ config: plainRegistries(registry.host) });
    directory = await makeTempDir('command-line');
  });
  after(async () => {
    await directory?.remove();
    await sluice?.stop();
    await registry?.stop();
  });

  const run = (...args: readonly string[]): Promise<Result> =>
    sluiceCommand(args, { SLUICE_SERVER: sluice.url });
  const reference = (name: string) => pushed.get(name)?.reference ?? assert.fail(name);

  const request = async (image: string, ...args: readonly string[]): Promise<ContainerResponse> => {
    const flags = ['--image', reference(image), '--json', ...args];
    return JSON.parse(assertSuccess(await run('request', ...flags)));
  };
  /** Returns the runtime configuration of the served image. */
  const runtimeOf = async ({ targetImage, digest }: ContainerResponse) => {
    const manifest = await fetchJson<{ config: { digest: string } }>(
      sluice,
      targetImage,
      `manifests/${digest}`,
    );
    const route = `blobs/${manifest.config.digest}`;
    const { config } = await fetchJson<{ config: Record<string, unknown> }>(
      sluice,
      targetImage,
      route,
    );
    return config;
  };

  suite('request', () => {
    test('prints the name, and the whole answer with --json', async () => {
      const plain = assertSuccess(await run('request', '--image', reference('cfg:full')));
      assert.match(plain, /^127\.0\.0\.1:\d+\/ct\/[a-z0-9]+\/corpus\/cfg:full\n$/);
      const response = await request('cfg:full');
      assert.equal(response.digest, pushed.get('cfg:full')?.digest);
      assert.ok(response.targetImage.includes(response.containerToken));
    });

    test('sets every field that has an option', async () => {
      const words = await runtimeOf(
        await request(
          'cfg:full',
          ...['--env', 'A=1', '--env', 'GREETING=b=c d', '--workdir', '/tmp'],
          ...['--entrypoint', 'sh', '--entrypoint=-c', '--cmd', 'echo a', '--cmd', 'b'],
        ),
      );
      assert.deepEqual(words.Entrypoint, ['sh', '-c']);
      assert.deepEqual(words.Cmd, ['echo a', 'b']);
      assert.equal(words.WorkingDir, '/tmp');
      const env = words.Env as string[];
      assert.ok(env.includes('A=1') && env.includes('GREETING=b=c d'), env.join());
      const json = await runtimeOf(
        await request('cfg:full', '--entrypoint', '["sh","-c"]', '--cmd', '[]'),
      );
      assert.deepEqual(json.Entrypoint, ['sh', '-c']);
      assert.deepEqual(json.Cmd, []);
    });

    test('includes the files of other images', async () => {
      const { targetImage, digest } = await request(
        'multi:index',
        ...['--platform', 'linux/arm64'],
        ...['--include', reference('multi:index'), '--include', reference('multi:list')],
      );
      const { layers } = await fetchJson<{ layers: unknown[] }>(
        sluice,
        targetImage,
        `manifests/${digest}`,
      );
      assert.equal(layers.length, 3);
      const other = ['--include', reference('cfg:full'), '--platform', 'linux/arm64'];
      const refused = await run('request', '--image', reference('multi:index'), ...other);
      assert.equal(refused.code, 1);
      assert.match(refused.stderr, /--include number 1: .*has no image for linux\/arm64/);
    });

    test('selects a platform', async () => {
      const response = await request('multi:index', '--platform', 'linux/arm64');
      assert.equal(response.digest, pushed.get('multi:index')?.image.children[1]?.digest);
    });

    test('shows the warnings of the server', async () => {
      const { stderr } = await run('request', '--image', reference('layers:127'), '--env', 'A=1');
      assert.match(stderr, /^Warning: The image has 127 layers/);
    });

    test('packs a directory identically at any place and time', async () => {
      const early = await fill(directory.join('early'), entries, new Date(1_000_000_000), 0);
      const late = await fill(directory.join('late'), [...entries].reverse(), new Date(), 12_345);
      const first = await request('cfg:full', '--layer', early);
      assert.equal((await request('cfg:full', '--layer', late)).digest, first.digest);
      const changes: [string, (folder: string) => Promise<void>][] = [
        ['mode', folder => chmod(join(folder, 'opt/tool/run'), 0o700)],
        ['content', folder => writeFile(join(folder, 'B'), 'other')],
        ['link', folder => symlink('elsewhere', join(folder, 'other-link'))],
        ['directory', async folder => void (await mkdir(join(folder, 'another')))],
      ];
      const digests = new Set([first.digest]);
      for (const [what, apply] of changes) {
        const folder = await fill(directory.join(`changed-${what}`), entries, new Date(), 0);
        await apply(folder);
        digests.add((await request('cfg:full', '--layer', folder)).digest);
      }
      assert.equal(digests.size, changes.length + 1);
    });

    test('sends a tar.gz file unchanged', async () => {
      const file = directory.join('layer.tar.gz');
      await writeFile(file, injected.bytes);
      const { targetImage, digest } = await request('cfg:full', '--layer', file);
      const { layers } = await fetchJson<{ layers: { digest: string }[] }>(
        sluice,
        targetImage,
        `manifests/${digest}`,
      );
      assert.equal(layers.at(-1)?.digest, injected.gzipDigest);
    });

    test('reports errors of a layer, an image and an answer', async () => {
      const image = ['--image', reference('cfg:full')];
      const missing = directory.join('missing');
      const nothing = await run('request', ...image, '--layer', missing);
      assert.deepEqual([nothing.code, nothing.stdout], [1, '']);
      assert.match(nothing.stderr, /\/missing: the directory or file does not exist/);
      const file = directory.join('not-a-layer');
      await writeFile(file, gzipSync('no tar'));
      const broken = await run('request', ...image, '--layer', file);
      assert.equal(broken.code, 1);
      assert.match(broken.stderr, /^--layer number 1 /);
      const unknown = await run('request', '--image', `${registry.host}/no/such:image`);
      assert.equal(unknown.code, 1);
      assert.match(unknown.stderr, /no\/such:image does not exist/);
    });
  });

  suite('inspect', () => {
    test('shows a table', async () => {
      const table = assertSuccess(await run('inspect', reference('cfg:full')));
      const rows = new Map(table.split('\n').map(row => [row.slice(0, 12).trim(), row.slice(13)]));
      assert.equal(rows.get('Digest'), pushed.get('cfg:full')?.digest);
      assert.equal(rows.get('Platform'), 'linux/amd64');
      assert.equal(rows.get('Entrypoint'), '["/bin/entry"]');
      assert.equal(rows.get('Command'), '["arg1","arg two"]');
      assert.equal(rows.get('Working dir'), '/home/user');
      assert.equal(rows.get('User'), 'user');
      assert.match(rows.get('Layers') ?? '', /^2, \d+ bytes$/);
      assert.match(table, /^Env +GREETING=hello, world = 1$/m);
    });

    test('shows JSON, of one platform or of all', async () => {
      const inspect = async (...args: readonly string[]) =>
        JSON.parse(assertSuccess(await run('inspect', reference('multi:index'), ...args)));
      const { image, digest } = pushed.get('multi:index') ?? assert.fail();
      const one = await inspect('--json');
      assert.equal(one.container.digest, image.children[0]?.digest);
      const arm = await inspect('--json', '--platform', 'linux/arm64');
      assert.equal(arm.container.digest, image.children[1]?.digest);
      const all = await inspect('--platform', 'all');
      assert.equal(all.index.digest, digest);
      assert.equal(all.index.manifests.length, 2);
    });
  });

  test('an invalid command line exits with 2 and shows the usage', async () => {
    for (const [args, wording] of [
      [['request', '--imagine', 'x'], /--imagine[\s\S]*Usage: sluice request/],
      [['request', '--image'], /--image[\s\S]*Usage: sluice request/],
      [['inspect', '--platfrom', 'all'], /Did you mean --platform\?[\s\S]*Usage: sluice inspect/],
      [['serve', '--port', '1'], /--port[\s\S]*Usage: sluice serve/],
      [['bulid'], /Unknown command: bulid\. Did you mean build\?/],
      [['user', 'lsit'], /Unknown action: lsit\. Did you mean list\?[\s\S]*Usage: sluice user/],
      [['help', 'bulid'], /Did you mean build\?/],
      [['--verison'], /Unknown option: --verison/],
      [['request'], /Missing argument: IMAGE/],
      [['inspect'], /Missing argument: IMAGE/],
      [['inspect', 'a', 'b'], /one image, got a and b/],
      [['request', 'a', 'b'], /one image, got a and b/],
      [['request', 'a', '--push-to', 'x.example/y'], /--push-to requires --freeze/],
      [['request', 'a', '--env', 'A=1', '--env', '=b'], /^--env number 2: expected NAME=VALUE$/m],
      [['request', 'a', '--format', 'zip'], /--format zip: expected docker or sif/],
      [['request', 'a', '--workspace', '1'], /set SLUICE_TOKEN/],
      [['build', '-f', 'package.json', '--channel', 'x'], /--channel requires --conda/],
      [['logs', 'a', 'b'], /Usage: sluice logs/],
      [['gc', 'all'], /Unexpected argument: all[\s\S]*Usage: sluice gc/],
      [['serve', 'all'], /Usage: sluice serve/],
      [['request', '--image', 'a', '--cmd', '[1]'], /--cmd begins like a JSON array/],
      [['request', '--image', 'a', '--server', 'nowhere'], /'nowhere' is not a URL/],
      [['serve', '--listen', 'nowhere'], /listen.*expected address:port/i],
    ] as const) {
      const { code, stdout, stderr } = await run(...args);
      assert.deepEqual([code, stdout], [2, ''], `${args.join(' ')}: ${stderr}`);
      assert.match(stderr, wording, args.join(' '));
    }
  });

  test('an unusable data directory is reported in a sentence', async () => {
    await using directory = await makeTempDir('cli-data');
    await writeFile(directory.join('sluice.db'), 'no database');
    for (const [args, wording] of [
      [['gc'], /\(file is not a database\)/],
      [['user', 'list'], /\(file is not a database\)/],
      [['user', 'add', 'a@b.example', '--data', directory.join('sluice.db/x')], /ENOTDIR/],
    ] as const) {
      const { code, stdout, stderr } = await sluiceCommand(args, { SLUICE_DATA: directory.path });
      assert.deepEqual([code, stdout], [1, ''], stderr);
      assert.match(stderr, wording);
      assert.doesNotMatch(stderr, /\n./, 'a sentence, without a stack');
    }
  });

  test('an unavailable server is reported with a remedy', async () => {
    const server = `http://127.0.0.1:${await freePort()}`;
    for (const args of [
      ['request', '--image', 'alpine'],
      ['inspect', 'alpine'],
    ]) {
      const { code, stdout, stderr } = await run(...args, '--server', server);
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(stderr, /^No response from http:.*Start the server with 'npm start'/);
    }
  });
});

type File = readonly [path: string, mode: number, content: string | { readonly link: string }];

const entries: readonly File[] = [
  ['opt/tool/run', 0o755, '#!/bin/sh\n'],
  ['opt/tool/data', 0o640, 'data\n'],
  ['opt/tool/link', 0, { link: 'run' }],
  ['opt/tool.d/empty', 0o600, ''],
  ['a', 0o644, 'a'],
  ['B', 0o644, 'b'],
  ['é', 0o644, 'accent'],
  [`${'long/'.repeat(30)}file`, 0o644, 'deep'],
];

/** Creates the files in the given order, with different times and owners. */
async function fill(
  folder: string,
  files: readonly File[],
  time: Date,
  owner: number,
): Promise<string> {
  for (const [path, mode, content] of files) {
    const place = join(folder, path);
    await mkdir(join(place, '..'), { recursive: true, mode: 0o755 });
    if (typeof content === 'object') {
      await symlink(content.link, place);
      await lutimes(place, time, time);
      continue;
    }
    await writeFile(place, content);
    await chmod(place, mode);
    await chown(place, owner, owner);
    await utimes(place, time, time);
  }
  await chown(join(folder, 'opt'), owner, owner);
  return folder;
}
