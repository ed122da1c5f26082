/** The command line shows how far a build of Conda packages is: real packages, a channel that waits, a real terminal. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { channelSettings, startCondaChannels } from '../world/conda-channels.ts';
import { nativeSubdir } from '../world/conda-package.ts';
import { library, program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ScriptedChannel, startScriptedChannel } from '../world/scripted-channel.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { openTerminal } from '../world/terminal.ts';
import { assertSuccess } from './served.ts';

const command = fileURLToPath(new URL('../../bin/sluice.js', import.meta.url));
/** They are sent in two halves, with a wait in between. */
const slow = /\/(?:big|large)-1-0\.conda$/;
const slowData = '/conda-forge/noarch/repodata.json';

suite('progress of Conda images', () => {
  let registry: Registry;
  let channel: ScriptedChannel;
  let sluice: Sluice;
  let goOn: PromiseWithResolvers<void>;
  const dataGoesOn = Promise.withResolvers<void>();
  let options: string[];
  const closers: (() => Promise<void>)[] = [];

  before(async () => {
    registry = await startRegistry();
    await pushDebianImage(registry, 'debian');
    const data = ['big', 'large'].map(name => ({
      ...{ name, version: '1', depends: ['library'] },
      files: [{ name: `share/${name}`, content: randomBytes(3_000_000) }],
    }));
    const packages = [...data, library('1'), program('procps-ng', '4.0')];
    const { files, stop } = await startCondaChannels({ 'conda-forge': packages, bioconda: [] });
    await stop();
    goOn = Promise.withResolvers();
    const t = { after: (close: () => Promise<void>) => void closers.push(close) };
    channel = await startScriptedChannel(t, async ({ url }, response) => {
      const bytes = files.get(url);
      if (!bytes) return void response.writeHead(404).end();
      response.writeHead(200, { 'content-length': bytes.length });
      if (!slow.test(url) && url !== slowData) return void response.end(bytes);
      response.write(bytes.subarray(0, bytes.length / 2));
      await (url === slowData ? dataGoesOn : goOn).promise;
      response.end(bytes.subarray(bytes.length / 2));
    });
    const names = ['conda-forge', 'bioconda'];
    sluice = await startSluice({
      config: {
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
        channels: channelSettings(channel.url, names),
      },
    });
    options = ['--base-image', `${registry.host}/debian:1`, '--await'];
  });
  after(async () => {
    for (const close of closers) await close();
    await sluice?.stop();
    await registry?.stop();
  });

  const environment = () => ({ SLUICE_SERVER: sluice.url });

  test('a terminal shows a bar for repository data, one for a download and one for all packages', async () => {
    const words = [process.execPath, command, 'build', '--conda', 'big', ...options];
    const terminal = openTerminal(words, environment(), 100);
    const screenShows = (shown: readonly RegExp[]) =>
      eventually('the bars are on the screen', () => {
        const screen = terminal.screen().join('\n');
        return shown.every(line => line.test(screen));
      }).catch(error => assert.fail(`${error.message}\n${terminal.screen().join('\n')}`));
    await screenShows([
      /^ => Solve the packages/m,
      /^ => => repodata conda-forge\/noarch +\[=+> +\] +\d+B \/ \d+B$/m,
    ]);
    dataGoesOn.resolve();
    await screenShows([
      /^ => Solve the packages/m,
      /^ => Fetch 3 packages and make their layers/m,
      /^ => => download big-1-0 +\[=+> +\] +1\.5\dMB \/ 3\.\d\dMB$/m,
      /^ => => 2 \/ 3 packages +\[=+> +\] +1\.5\dMB \/ 3\.\d\dMB$/m,
    ]);
    goOn.resolve();
    assert.equal(await terminal.exitCode, 0, terminal.output());
    const screen = terminal.screen();
    assert.match(screen.join('\n'), /\[\+\] Built in .*: 3 steps, 0 of them cached/);
    assert.ok(!screen.some(line => line.includes('=> =>')), screen.join('\n'));
    assert.ok(screen.every(line => line.length <= 100 || line.startsWith('Page of the build: ')));
  });

  test('without a terminal, each line of the log is printed once', async () => {
    goOn = Promise.withResolvers();
    const built = sluiceCommand(['build', '--conda', 'large', ...options], environment());
    await eventually('its archive is asked for', () =>
      channel.requests.some(url => url.endsWith('large-1-0.conda')),
    );
    goOn.resolve();
    const result = await built;
    assertSuccess(result);
    const lines = result.stderr.split('\n');
    assert.ok(lines.includes('#1 Solve the packages'), result.stderr);
    assert.equal(lines.filter(line => line === '#1 Solve the packages').length, 1);
    assert.match(result.stderr, /^#1 \d+\.\d{3} linux\/amd64: 3 packages, found in /m);
    assert.match(
      result.stderr,
      /^#2 download large-1-0 3\.\d\dMB \/ 3\.\d\dMB(?: \d+\.\ds)? done$/m,
    );
    assert.match(result.stderr, /^#2 3 \/ 3 packages 3\.\d\dMB \/ 3\.\d\dMB$/m);
    assert.match(result.stderr, /^#3 Push the image$/m);
    // Nothing that moves a cursor.
    assert.ok(!result.stderr.includes('\x1b'));
    assert.ok(channel.requests.some(url => url.includes(`/${nativeSubdir}/`)));
  });
});
