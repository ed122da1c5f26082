/** `sluice search` and `sluice builds`: what one can ask for, and what became of it. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

const about = 'Tools for SAM files';

suite('finding packages and builds', () => {
  let registry: Registry;
  let channels: CondaChannels;
  let sluice: Sluice;
  let home: TempDir;

  before(async () => {
    registry = await startRegistry();
    await pushDebianImage(registry, 'library/ubuntu', '24.04');
    channels = await startCondaChannels({
      'conda-forge': [program('procps-ng', '4.0.4')],
      bioconda: [program('samtools', '1.9'), program('samtools', '1.20'), program('bwa', '0.7')],
    });
    channels.files.set(
      '/bioconda/channeldata.json',
      Buffer.from(JSON.stringify({ packages: { samtools: { summary: about, version: '1.20' } } })),
    );
    for (const path of [...channels.files.keys()]) {
      if (path.includes('/bwa-')) channels.files.delete(path);
    }
    sluice = await startSluice({
      config: {
        builds: { conda: 'native' },
        access: { requests: 'open', builds: 'open', pulls: 'open' },
        registries: {
          'docker.io': { mirrors: [registry.host] },
          [registry.host]: { plainHttp: true },
        },
        channels: channels.settings,
        accounts: { admin: 'a-long-password' },
      },
    });
    home = await makeTempDir('home');
  });
  after(async () => {
    await sluice?.[Symbol.asyncDispose]();
    await channels?.stop();
    await registry?.[Symbol.asyncDispose]();
    await home?.[Symbol.asyncDispose]();
  });

  const run = (args: readonly string[], more: Readonly<Record<string, string>> = {}) =>
    sluiceCommand(args, { SLUICE_SERVER: sluice.url, HOME: home.join('.'), ...more });
  const build = (name: string, more?: Readonly<Record<string, string>>) =>
    run(
      ['build', '--conda', name, '--channel', 'conda-forge', '--channel', 'bioconda', '--await'],
      more,
    );

  test('packages are found by a part of their name, with their versions', async () => {
    const found = await run(['search', 'tools']);
    assert.equal(found.code, 0, found.stderr);
    assert.match(found.stdout, /^PACKAGE .*\nsamtools +1\.20 +bioconda +Tools for SAM files\n$/);
    const { stdout } = await run(['search', 'samtools', '--versions', '--json']);
    const { versions, problems } = JSON.parse(stdout);
    assert.deepEqual(
      versions.map(({ version }: { version: string }) => version),
      ['1.20', '1.9'],
    );
    assert.deepEqual(problems, []);
    for (const args of [['no-such-thing'], ['no-such-thing', '--versions']]) {
      const nothing = await run(['search', ...args]);
      assert.deepEqual([nothing.code, nothing.stdout], [1, '']);
      assert.match(nothing.stderr, /^No package .*'no-such-thing'/);
    }
    const mistyped = await run(['search', 'samtols']);
    assert.match(mistyped.stderr, /'samtols' in its name\. Did you mean samtools\?$/m);
    const short = await run(['search', 's']);
    assert.match(short.stderr, /'search' has fewer than 2 characters/);
    const other = await run(['search', 'samtools', '--channel', 'conda-forge']);
    assert.equal(other.code, 1, other.stdout);
  });

  test('without a login, the builds of this machine are listed, with the reasons of failures', async () => {
    assert.match((await run(['builds'])).stdout, /^No builds were requested from this machine/);
    assert.equal((await build('samtools=1.20')).code, 0);
    const failed = await build('bwa');
    assert.equal(failed.code, 1, failed.stderr);
    const { stdout, code } = await run(['builds']);
    const [, first = '', image = '', reason = '', second = ''] = stdout.split('\n');
    assert.match(first, /^failed +\d+\.\d s +\d+ s ago +\w/);
    assert.match(image, /^ {4}\S+\/builds:bwa/);
    assert.match(reason, /^ {4}\S.*bwa/);
    assert.match(second, /^succeeded +\d+\.\d s /);
    assert.equal(code, 0);
    const { builds } = JSON.parse((await run(['builds', '--json', '--state', 'failed'])).stdout);
    assert.equal(builds.length, 1);
    const elsewhere = await sluiceCommand(['builds'], { SLUICE_SERVER: sluice.url });
    assert.match(elsewhere.stdout, /^No builds/, 'another user sees none of them');
  });

  test('a user lists the own builds, an administrator all, and a stranger none', async () => {
    const data = ['--data', sluice.data];
    assert.equal((await sluiceCommand(['user', 'add', 'ada@example.org', ...data])).code, 0);
    const added = ['token', 'add', '--user', 'ada@example.org', '--name', 'x', ...data];
    const token = (await sluiceCommand(added)).stdout.trim().split('\n').at(-1) ?? '';
    const own = await build('samtools=1.9', { SLUICE_TOKEN: token });
    assert.equal(own.code, 0, own.stderr);
    const imagesOf = async (login: Readonly<Record<string, string>>) => {
      const listed = await run(['builds', '--json'], login);
      const { builds } = JSON.parse(listed.stdout) as { builds: { targetImage: string }[] };
      return builds.map(({ targetImage }) => /samtools-[\d.]+|bwa/.exec(targetImage)?.[0]);
    };
    assert.deepEqual(await imagesOf({ SLUICE_TOKEN: token }), ['samtools-1.9']);
    const all = await imagesOf({ SLUICE_ACCOUNT: 'admin:a-long-password' });
    assert.deepEqual(all, ['samtools-1.9', 'bwa', 'samtools-1.20']);
    const stranger = await fetch(`${sluice.url}/v1alpha1/builds`);
    assert.equal(stranger.status, 401);
    assert.match(await stranger.text(), /The list of builds requires a login/);
  });
});
