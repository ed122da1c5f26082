/** Channels of the configuration in images that a builder makes: it gets no credentials, and knows only public names. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recipeIn } from '../../src/builds/plan/build-plan.ts';
import { type PlanRequest, planBuild } from '../../src/builds/plan/plan.ts';
import type { CondaMaker } from '../../src/builds/recipe/conda/conda-source.ts';
import { createBuilderChannels } from '../../src/conda/channels/channel-settings.ts';
import { configuredChannels } from '../../src/server/config/read/registries.ts';
import { configSchema } from '../../src/server/config/settings-schema.ts';

const url = 'https://conda.test/team';
const token = 'tk-1';

const channelsOf = (channels: object) =>
  createBuilderChannels(configuredChannels(configSchema.parse({ channels })));

/** Returns what the plan of a request writes for the package manager. */
function written(channels: object, packages: object, more: PlanRequest = {}, conda?: CondaMaker) {
  const request = { packages: { type: 'CONDA', ...packages }, ...more };
  const places = { repository: 'registry.test/builds', cache: undefined, frozen: {} };
  const setting = conda === undefined ? {} : { conda };
  const known = planBuild(request, { ...places, ...setting, condaChannels: channelsOf(channels) });
  const { key } = planBuild(request, { ...places, ...setting });
  assert.equal(known.key, key, 'the configuration is not in the key');
  const { files = {}, dockerfile = '' } = recipeIn(known) ?? {};
  const yaml = (files['conda.yml'] ?? '').split('\n');
  return {
    lines: yaml.flatMap(line => /^ {2}- "(.*)"$/.exec(line)?.[1] ?? []),
    added: dockerfile.split('\n').find(line => line.includes('--freeze-installed')),
  };
}

const labels = { a: 'b' };
const none = { condaOpts: { basePackages: '' } };

test('a channel at another address is written with that address', () => {
  const channels = { team: { url }, 'https://old.test/c': { url: 'https://new.test/c' } };
  const packages = {
    entries: ['team::a=1', 'b[version=2, channel=team]', 'bioconda::c', 'd'],
    channels: ['team', 'team/label/dev', 'team[linux-64]', 'https://old.test/c', 'bioconda'],
    ...none,
  };
  const { lines } = written(channels, packages, { labels });
  assert.deepEqual(lines, [
    url,
    `${url}/label/dev`,
    `${url}[linux-64]`,
    'https://new.test/c',
    'bioconda',
    ...['bioconda::c', 'd', `${url}::a=1`, `${url}::b[version=2]`],
  ]);
});

test('the recipe of an image that begins without a builder has the addresses, too', () => {
  const { lines } = written({ team: { url, token } }, { entries: ['a'], channels: ['team'] });
  assert.deepEqual(lines, [url, 'a', 'conda-forge::procps-ng']);
});

test('base packages that are added to a lock file have the addresses', () => {
  const entries = ['@EXPLICIT\nhttps://conda.test/c/linux-64/a-1-0.conda\n'];
  const packages = { entries, channels: ['team'], condaOpts: { basePackages: 'team::b' } };
  const { added } = written({ team: { url } }, packages, { labels });
  assert.match(
    added ?? '',
    /--channel https:\/\/conda\.test\/team https:\/\/conda\.test\/team::b$/,
  );
});

test('channels that are not moved are written as they are', () => {
  const channels = {
    'conda-forge': { mirrors: ['https://mirror.test/conda-forge'] },
    'https://10.0.0.7/local': { allowPrivateAddress: true },
  };
  const listed = [
    'conda-forge[linux-64]',
    'https://10.0.0.7/local/',
    'file:///x',
    'main',
    'defaults',
  ];
  const { lines } = written(channels, { entries: ['a'], channels: listed, ...none }, { labels });
  assert.deepEqual(lines, [...listed, 'a']);
});

test('`defaults` is written as its channels where one of them is listed', () => {
  const mirror = 'https://mirror.test/main';
  const lines = (channels: object) =>
    written(channels, { entries: ['a'], channels: ['defaults'], ...none }, { labels }).lines;
  assert.deepEqual(lines({ main: { url: mirror } }), [mirror, 'pkgs/r', 'a']);
  assert.deepEqual(lines({ defaults: { url: mirror } }), [mirror, 'a']);
  assert.throws(
    () => written({ main: { url: mirror } }, { entries: ['defaults::a'] }, { labels }),
    /The channel 'defaults' of 'defaults::a' stands for several channels/,
  );
});

test('a channel with credentials is refused where a builder is required, with the reason', () => {
  const channels = { team: { url, token }, 'conda-forge': { username: 'ann', password: 'pw' } };
  const fails = (packages: object, more: PlanRequest = {}, conda?: CondaMaker) => {
    let message = '';
    assert.throws(
      () => written(channels, packages, more, conda),
      (error: Error) => {
        ({ message } = error);
        return 'kind' in error && error.kind === 'bad-request' && !message.includes(token);
      },
    );
    return message;
  };
  const entries = ['a'];
  assert.equal(
    fails({ entries, channels: ['bioconda', 'team/label/dev'], ...none }, { labels }),
    "The channel 'team/label/dev' has credentials in the configuration, which a builder does not get, and a builder is required for 'labels': leave out the channel, or what requires a builder",
  );
  assert.match(
    fails({ entries: ['a', 'pip:b'], channels: [url], ...none }, { labels }),
    /'https:\/\/conda\.test\/team' .* required for the 'pip' packages and 'labels': /,
  );
  for (const entry of ['team::a', 'a[version=1, channel=team]']) {
    assert.match(fails({ entries: [entry], channels: ['bioconda'] }, { labels }), /'team'/);
  }
  assert.match(
    fails({ entries, channels: ['bioconda'] }, { labels }),
    /^The channel 'conda-forge' of 'conda-forge::procps-ng' has credentials/,
  );
  assert.match(
    fails({ entries, channels: ['team'] }, {}, 'buildkit'),
    /'team' .* a builder makes all images of Conda packages on this server: /,
  );
});

test('a lock file with all packages requires no channel, and so is not refused', () => {
  const entries = ['@EXPLICIT\nhttps://conda.test/team/linux-64/a-1-0.conda\n'];
  const { added } = written(
    { team: { url, token } },
    { entries, channels: ['team'], ...none },
    { labels },
  );
  assert.equal(added, undefined);
});
