import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readProxies } from '../../src/upstream/transport/proxy.ts';

const proxyOf = (environment: Record<string, string>, url: string) =>
  readProxies(environment)(new URL(url))?.url.host;

test('each protocol has its own variable, in upper or lower case', () => {
  const both = { HTTPS_PROXY: 'http://one:3128', http_proxy: 'two:8080' };
  assert.equal(proxyOf(both, 'https://ghcr.io/v2/'), 'one:3128');
  assert.equal(proxyOf(both, 'http://ghcr.io/v2/'), 'two:8080');
  assert.equal(proxyOf({ HTTPS_PROXY: '' }, 'https://ghcr.io/'), undefined);
  assert.equal(proxyOf({}, 'https://ghcr.io/'), undefined);
});

test('a name and password are sent to the proxy, and are not in its address', () => {
  const proxy = readProxies({ HTTPS_PROXY: 'http://me:a%40b@proxy:1' })(new URL('https://x.y/'));
  assert.equal(proxy?.authorization, `Basic ${Buffer.from('me:a@b').toString('base64')}`);
  assert.equal(proxy?.url.href, 'http://proxy:1/');
});

test('NO_PROXY names hosts that are connected to directly', () => {
  const cases: readonly (readonly [list: string, url: string, isDirect: boolean])[] = [
    ['*', 'https://ghcr.io/', true],
    ['ghcr.io', 'https://ghcr.io/', true],
    ['GHCR.io', 'https://ghcr.IO/', true],
    ['ghcr.io', 'https://pkg.ghcr.io/', true],
    ['.ghcr.io', 'https://pkg.ghcr.io/', true],
    ['*.ghcr.io', 'https://pkg.ghcr.io/', true],
    ['ghcr.io', 'https://notghcr.io/', false],
    ['a.b, ,ghcr.io', 'https://ghcr.io/', true],
    ['ghcr.io:443', 'https://ghcr.io/', true],
    ['ghcr.io:5000', 'https://ghcr.io/', false],
    ['10.0.0.0/8', 'http://10.1.2.3:5000/', true],
    ['10.0.0.0/8', 'http://11.1.2.3:5000/', false],
    ['10.1.2.3', 'http://10.1.2.3:5000/', true],
    ['10.1.2.3:5000', 'http://10.1.2.3:5000/', true],
    ['10.1.2.3:5001', 'http://10.1.2.3:5000/', false],
    ['::1', 'http://[::1]:5000/', true],
    ['[::1]:5000', 'http://[::1]:5000/', true],
    ['fd00::/8', 'https://[fd12::1]/', true],
    ['10.0.0.0/99,nonsense/8', 'https://ghcr.io/', false],
  ];
  for (const [list, url, isDirect] of cases) {
    const environment = { HTTPS_PROXY: 'p:1', HTTP_PROXY: 'p:1', NO_PROXY: list };
    assert.equal(proxyOf(environment, url), isDirect ? undefined : 'p:1', `${list} ${url}`);
  }
});

test('an invalid proxy is an error that names the variable and not its value', () => {
  for (const value of ['socks5://me:secret@x:1', 'http://', 'http://me:%zz@secret:1']) {
    assert.throws(
      () => readProxies({ HTTPS_PROXY: value }),
      (error: Error) => /^HTTPS_PROXY/.test(error.message) && !error.message.includes('secret'),
    );
  }
});
