import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../../src/server/config/load.ts';

test('without settings the built-in platform is the only one', () => {
  assert.deepEqual(loadConfig({}).config.platform, {
    allow: [],
    aliases: {},
    assumeRoles: false,
    callsPerSecond: 20,
    callsPerHour: 72_000,
    timeout: 10_000,
  });
});

test('platforms are set by environment variables', () => {
  const { config, warnings } = loadConfig({
    SLUICE_PLATFORM_URL: 'https://platform.example/api',
    SLUICE_PLATFORM_ALLOW: 'https://tower.example/api, other.example:8443',
    SLUICE_PLATFORM_ALIASES:
      'https://api.example=built-in, https://old.example/api = https://tower.example/api',
    SLUICE_PLATFORM_PAIRING_TOKEN: 'sixteen-characters',
    SLUICE_PLATFORM_ASSUME_ROLES: 'true',
    SLUICE_PLATFORM_CALLS_PER_SECOND: '5',
    SLUICE_PLATFORM_CALLS_PER_HOUR: '100',
    SLUICE_PLATFORM_TIMEOUT: '3s',
  });
  assert.deepEqual(warnings, []);
  assert.deepEqual(config.platform, {
    url: 'https://platform.example/api',
    allow: ['https://tower.example/api', 'other.example:8443'],
    aliases: {
      'https://api.example': 'built-in',
      'https://old.example/api': 'https://tower.example/api',
    },
    pairingToken: 'sixteen-characters',
    assumeRoles: true,
    callsPerSecond: 5,
    callsPerHour: 100,
    timeout: 3000,
  });
});

test('errors are reported with their setting', () => {
  for (const [variable, value, message] of [
    ['SLUICE_PLATFORM_URL', 'platform.example', /SLUICE_PLATFORM_URL: expected an http\(s\) URL/],
    ['SLUICE_PLATFORM_ALLOW', 'https://a, ftp://b', /expected https:\/\/host\[\/path\]/],
    ['SLUICE_PLATFORM_ALIASES', 'a=built-in', /expected https:\/\/host\[\/path\]/],
    ['SLUICE_PLATFORM_ALIASES', 'https://a=own', /expected https:\/\/host\[\/path\] or built-in/],
    ['SLUICE_PLATFORM_PAIRING_TOKEN', 'short', /at least 16 characters/],
    ['SLUICE_PLATFORM_CALLS_PER_SECOND', '0', /SLUICE_PLATFORM_CALLS_PER_SECOND/],
  ] as const) {
    assert.throws(() => loadConfig({ [variable]: value }), { message });
  }
});
