import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessRules } from '../../src/server/config/read/access-in-force.ts';
import { configSchema } from '../../src/server/config/settings-schema.ts';

test('by default, builds without a login are allowed only where nobody else can reach the server', () => {
  const certificate = { certificate: 'c.pem', key: 'k.pem' };
  for (const [settings, url, builds] of [
    [{}, 'http://127.0.0.1:9090', 'open'],
    [{ listen: '[::1]:9090' }, 'http://localhost:9090', 'open'],
    [{ tls: { ...certificate, listen: '127.0.0.1:9443' } }, 'https://localhost:9443', 'open'],
    [{ tls: { ...certificate, listen: '0.0.0.0:9443' } }, 'https://localhost:9443', 'login'],
    [{ listen: 'LOCALHOST:9090' }, 'http://127.0.0.1:9090', 'open'],
    [{ listen: '0.0.0.0:9090' }, 'http://127.0.0.1:9090', 'login'],
    [
      { listen: '0.0.0.0:9090', tls: { ...certificate, listen: '127.0.0.1:9443' } },
      'https://localhost:9443',
      'login',
    ],
    [{ listen: '127.0.0.1.example.com:9090' }, 'http://127.0.0.1:9090', 'login'],
    [{ listen: '0.0.0.0:9090', local: 'true' }, 'http://127.0.0.1:9090', 'open'],
    [{}, 'https://images.example.com', 'login'],
    [{ trustedProxies: 1 }, 'http://127.0.0.1:9090', 'login'],
    [{ access: { builds: 'off' } }, 'http://127.0.0.1:9090', 'off'],
    [{ listen: '0.0.0.0:9090', access: { builds: 'open' } }, 'http://10.0.0.1', 'open'],
  ] as const) {
    const rules = accessRules(configSchema.parse(settings), new URL(url));
    assert.deepEqual(rules, { requests: 'open', builds, pulls: 'open' }, JSON.stringify(settings));
  }
});

test('what access says is in force', () => {
  const rules = (access: object) =>
    accessRules(configSchema.parse({ access }), new URL('http://127.0.0.1:9090'));
  const open = { requests: 'open', builds: 'open', pulls: 'open' };
  for (const one of ['requests', 'builds', 'pulls']) {
    for (const openness of ['login', 'off']) {
      assert.deepEqual(rules({ [one]: openness }), { ...open, [one]: openness });
    }
  }
});

test('a server that says that it is local and has an address for others does not start', () => {
  for (const [settings, url] of [
    [{ local: true }, 'https://images.example.com'],
    [{ local: true, trustedProxies: 1 }, 'http://127.0.0.1:9090'],
  ] as const) {
    const rules = () => accessRules(configSchema.parse(settings), new URL(url));
    assert.throws(rules, { name: 'ConfigError', message: /'local' requires .*'url'.*access/ });
  }
});
