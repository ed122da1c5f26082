import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { ConfigError } from '../../src/server/config/config-file.ts';
import { loadConfig } from '../../src/server/config/load.ts';
import { makeTempDir } from '../world/temp-dir.ts';

async function withFile<T>(yaml: string, use: (path: string) => T): Promise<T> {
  await using directory = await makeTempDir('config');
  const path = directory.join('sluice.yaml');
  await writeFile(path, yaml);
  return use(path);
}

test('without settings, the defaults of the contract apply', () => {
  const { config, warnings } = loadConfig({});
  assert.equal(config.listen, '127.0.0.1:9090');
  assert.equal(config.data, './data');
  assert.equal(config.prefix, 'ct');
  assert.equal(config.tokenLife, 36 * 3_600_000);
  assert.deepEqual(config.limits.pulls.anonymous, { count: 250, seconds: 3600 });
  assert.deepEqual(config.limits.pulls.authenticated, { count: 1000, seconds: 60 });
  assert.deepEqual(config.limits.requests.anonymous, { count: 1000, seconds: 3600 });
  assert.deepEqual(config.accounts, {});
  assert.deepEqual(warnings, []);
});

test('the environment takes precedence over the file, the file over the defaults', async () => {
  await withFile('prefix: file\nlimits: {bodyBytes: 1 MiB}\ndata: state\n', path => {
    const { config } = loadConfig({ SLUICE_CONFIG: path, SLUICE_PREFIX: 'env' });
    assert.equal(config.prefix, 'env');
    assert.equal(config.limits.bodyBytes, 1024 * 1024);
    assert.equal(config.data, path.replace('sluice.yaml', 'state'));
  });
});

test('nested settings, lists and accounts can be set in the environment', () => {
  const { config } = loadConfig({
    SLUICE_LIMITS_PULLS_ANONYMOUS: 'off',
    SLUICE_LAYERS_PRIVATE_HOSTS: 'a.internal, b.internal:8080',
    SLUICE_ACCOUNTS: 'ada:lovelace,bob:pass:word',
    SLUICE_TRUSTED_PROXIES: '2',
    SLUICE_UPSTREAM_CONNECT_TIMEOUT: '250ms',
  });
  assert.equal(config.limits.pulls.anonymous, undefined);
  assert.deepEqual(config.layers.privateHosts, ['a.internal', 'b.internal:8080']);
  assert.deepEqual(config.accounts, {
    ada: { password: 'lovelace', repositories: undefined },
    bob: { password: 'pass:word', repositories: undefined },
  });
  assert.equal(config.trustedProxies, 2);
  assert.equal(config.upstream.connectTimeout, 250);
});

test('a file in which off and on are booleans, as in YAML 1.1, means these words', async () => {
  const file = `
    access: {requests: false, builds: false, pulls: false}
    limits: {pulls: {anonymous: false}, logins: false}
    hosted: {maxContextBytes: false}
    scrub: {bytesPerSecond: false}
    anonymous: {maxBytes: false, maxBuildBytes: false}
    buildkit: false
    pages: false`;
  await withFile(file, path => {
    const { config } = loadConfig({ SLUICE_CONFIG: path });
    assert.deepEqual(config.access, { requests: 'off', builds: 'off', pulls: 'off' });
    assert.equal(config.limits.pulls.anonymous, undefined);
    assert.equal(config.limits.logins, undefined);
    assert.equal(config.hosted.maxContextBytes, undefined);
    assert.equal(config.scrub.bytesPerSecond, undefined);
    assert.equal(config.anonymous.maxBytes, undefined);
    assert.deepEqual(config.buildkit, ['off']);
    assert.equal(config.pages, 'off');
  });
  await withFile('pages: true\nbuildkit: [false]', path => {
    const { config } = loadConfig({ SLUICE_CONFIG: path });
    assert.deepEqual([config.pages, config.buildkit], ['on', ['off']]);
  });
  for (const [wrong, message] of [
    ['access: {builds: true}', /expected open, login or off/],
    ['limits: {pulls: {anonymous: true}}', /expected a rate/],
    ['hosted: {maxContextBytes: true}', /hosted\.maxContextBytes/],
    ['anonymous: {maxFiles: true}', /anonymous\.maxFiles/],
    ['prefix: false', /prefix/],
  ] as const) {
    await withFile(wrong, path =>
      assert.throws(() => loadConfig({ SLUICE_CONFIG: path }), message),
    );
  }
});

test('an account in the file may have rights to repositories only', async () => {
  const file = 'accounts: {ci: {password: word, repositories: {"team/*": push}}, ada: lovelace}\n';
  await withFile(file, path => {
    const { config } = loadConfig({ SLUICE_CONFIG: path });
    assert.deepEqual(config.accounts.ci, { password: 'word', repositories: { 'team/*': 'push' } });
    assert.deepEqual(config.accounts.ada, { password: 'lovelace', repositories: undefined });
  });
  await withFile('accounts: {ci: {password: word, repositories: {"team/*": own}}}\n', path => {
    assert.throws(() => loadConfig({ SLUICE_CONFIG: path }), /accounts/);
  });
});

test('a nested setting in the environment does not affect its neighbours in the file', async () => {
  await withFile('limits: {pulls: {anonymous: 1/day, authenticated: 2/day}}\n', path => {
    const { config } = loadConfig({ SLUICE_CONFIG: path, SLUICE_LIMITS_PULLS_ANONYMOUS: '3/day' });
    assert.equal(config.limits.pulls.anonymous?.count, 3);
    assert.equal(config.limits.pulls.authenticated?.count, 2);
  });
});

test('an unknown variable causes a warning', () => {
  const { warnings } = loadConfig({ SLUICE_PERFIX: 'ct', HOME: '/root' });
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? '', /SLUICE_PERFIX .* did you mean SLUICE_PREFIX\?/);
});

const wrong: ReadonlyArray<readonly [Record<string, string>, RegExp]> = [
  [{ SLUICE_LISTEN: '9090' }, /SLUICE_LISTEN: expected address:port/],
  [{ SLUICE_LISTEN: '127.0.0.1:99999' }, /SLUICE_LISTEN: expected address:port/],
  [
    { SLUICE_BUILD_REPOSITORY: 'x.example/a b' },
    /SLUICE_BUILD_REPOSITORY: expected registry\/path/,
  ],
  [
    { SLUICE_CACHE_REPOSITORY: 'x.example/a:1' },
    /SLUICE_CACHE_REPOSITORY: expected registry\/path/,
  ],
  [{ SLUICE_ACCOUNTS: 'ada' }, /SLUICE_ACCOUNTS: expected name:password/],
  [{ SLUICE_BUILD_REPOSITORY: 'builds' }, /SLUICE_BUILD_REPOSITORY: expected registry\/path/],
  [{ SLUICE_TRUSTED_PROXIES: 'one' }, /SLUICE_TRUSTED_PROXIES: expected a whole number/],
  [{ SLUICE_BUILDS_TRUST_CACHES: 'yes' }, /SLUICE_BUILDS_TRUST_CACHES: expected true or false/],
  [{ SLUICE_URL: 'ftp://x' }, /SLUICE_URL: expected an http/],
  [{ SLUICE_PREFIX: 'a/b' }, /SLUICE_PREFIX: expected one path segment/],
  [{ SLUICE_TOKEN_LIFE: '36' }, /SLUICE_TOKEN_LIFE: expected a time/],
  [{ SLUICE_LIMITS_BODY_BYTES: 'much' }, /SLUICE_LIMITS_BODY_BYTES: expected a size/],
  [{ SLUICE_LIMITS_PULLS_ANONYMOUS: '-1/hour' }, /expected a rate/],
  [{ SLUICE_LIMITS_LOGINS: '0/hour' }, /SLUICE_LIMITS_LOGINS: expected at least one/],
  [{ SLUICE_ACCESS_BUILDS: 'closed' }, /SLUICE_ACCESS_BUILDS: expected open, login or off/],
  [
    { SLUICE_BUILDKIT: 'off,/run/socket' },
    /SLUICE_BUILDKIT.*not the address of a builder: expected unix:/,
  ],
  [{ SLUICE_LOG_LEVEL: 'loud' }, /SLUICE_LOG_LEVEL/],
  [
    { SLUICE_CONFIG: '/nowhere/sluice.yaml' },
    /Cannot read the configuration file .*: it does not exist/,
  ],
];

for (const [environment, message] of wrong) {
  test(`refuses ${JSON.stringify(environment)}`, () => {
    assert.throws(
      () => loadConfig(environment),
      (error: unknown) => {
        assert.ok(error instanceof ConfigError);
        assert.match(error.message, message);
        return true;
      },
    );
  });
}

test('an account without a password is refused, and passwords are not repeated', () => {
  for (const accounts of ['ada', 'ada:', ':secret']) {
    assert.throws(
      () => loadConfig({ SLUICE_ACCOUNTS: accounts }),
      (error: unknown) => {
        assert.ok(error instanceof ConfigError);
        assert.match(error.message, /SLUICE_ACCOUNTS/);
        assert.doesNotMatch(error.message, /secret/);
        return true;
      },
    );
  }
});

test('a misspelled setting in the file is named', async () => {
  await withFile('registries: {r.example: {plainhttp: true}}\n', path => {
    assert.throws(
      () => loadConfig({ SLUICE_CONFIG: path }),
      /r\.example' \(line 1\): unknown setting: plainhttp/,
    );
  });
  await withFile('prefixx: ct\n', path => {
    assert.throws(
      () => loadConfig({ SLUICE_CONFIG: path }),
      /unknown setting: prefixx \(did you mean prefix\?\)/,
    );
  });
});

test('errors in names and values of a map are reported', async () => {
  for (const [yaml, message] of [
    ['accounts: {ada: [secret]}\n', /'accounts\.ada' \(line 1\): expected a password, or/],
    ['accounts: 5\n', /'accounts' \(line 1\): expected a map of names to passwords/],
    ['registries: {"https://x.example": {}}\n', /expected the host of a registry/],
    ['registries: {"a b": {}}\n', /expected the host of a registry/],
  ] as const) {
    await withFile(yaml, path => {
      assert.throws(() => loadConfig({ SLUICE_CONFIG: path }), message);
    });
  }
  await withFile('registries: {"[::1]:5000": {}, registry: {}, docker.io: {}}\n', path => {
    assert.equal(Object.keys(loadConfig({ SLUICE_CONFIG: path }).config.registries).length, 3);
  });
});

test('a file that is not YAML is refused with the position, and without its content', async () => {
  for (const yaml of [
    'accounts:\n  ada: "secret\nprefix: x\n',
    'accounts:\n  ada: secret: x\n',
    'accounts:\n  ada: *secret\n',
    'accounts: {ada: secret\n',
  ]) {
    await withFile(yaml, path => {
      assert.throws(
        () => loadConfig({ SLUICE_CONFIG: path }),
        (error: unknown) => {
          assert.ok(error instanceof ConfigError);
          assert.match(error.message, /sluice\.yaml is not valid YAML/);
          if (!yaml.includes('*')) assert.match(error.message, /at line \d+, column \d+ \(/);
          assert.doesNotMatch(`${error.message} ${error.cause}`, /secret/);
          return true;
        },
      );
    });
  }
});

test('a file that is not YAML, or has no settings, is refused with its name', async () => {
  for (const yaml of ['a: [', '- one\n']) {
    await withFile(yaml, path => {
      assert.throws(() => loadConfig({ SLUICE_CONFIG: path }), /sluice\.yaml/);
    });
  }
});

test('an address that others cannot reach is reported', () => {
  const warningsOf = (environment: Record<string, string>) => loadConfig(environment).warnings;
  const url = 'http://10.0.0.1:9090';
  const [unreachable] = warningsOf({ SLUICE_URL: url });
  assert.match(
    unreachable ?? '',
    /^Others reach http:\/\/10\.0\.0\.1:9090 only through a proxy.*SLUICE_LISTEN/,
  );
  const [nowhere] = warningsOf({ SLUICE_LISTEN: '0.0.0.0:9090' });
  assert.match(nowhere ?? '', /begin with 0\.0\.0\.0:9090, .*SLUICE_URL/);
  for (const fine of [
    { SLUICE_LISTEN: '10.0.0.1:9090' },
    { SLUICE_LISTEN: '0.0.0.0:9090', SLUICE_URL: url },
    { SLUICE_LISTEN: '0.0.0.0:9090', SLUICE_URL: 'http://127.0.0.1:9090' },
    { SLUICE_URL: url, SLUICE_TRUSTED_PROXIES: '1' },
    { SLUICE_URL: 'http://localhost:1' },
  ]) {
    assert.deepEqual(warningsOf(fine), []);
  }
});
