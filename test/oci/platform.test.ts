import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Descriptor } from '../../src/oci/descriptor.ts';
import { digestOf } from '../../src/oci/digest.ts';
import {
  compareVariants,
  formatPlatform,
  goArchitecture,
  isAttestation,
  listPlatforms,
  matchesPlatform,
  type Platform,
  parsePlatform,
  runsOn,
  selectPlatform,
} from '../../src/oci/platform.ts';
import { OciSyntaxError } from '../../src/oci/syntax-error.ts';

function platform(text: string): Platform {
  const [os = '', architecture = '', variant] = text.split('/');
  return variant === undefined ? { os, architecture } : { os, architecture, variant };
}

function entry(text: string | undefined, more: Partial<Descriptor> = {}): Descriptor {
  return {
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    digest: digestOf(`${text} ${JSON.stringify(more)}`),
    size: 1,
    ...(text === undefined ? {} : { platform: { ...platform(text) } }),
    ...more,
  };
}

function selected(wanted: string, ...offers: string[]): string | undefined {
  const found = selectPlatform(
    offers.map(offer => entry(offer)),
    platform(wanted),
  )?.platform;
  return found ? formatPlatform({ ...found, variant: found.variant ?? '' }) : undefined;
}

test('platforms: the usual spellings of the two supported platforms', () => {
  const amd = ['linux/amd64', 'amd64', 'x86_64', 'linux/x86_64', 'Linux/AMD64', 'x86-64'];
  for (const text of [...amd, 'linux/amd64/v1']) {
    assert.deepEqual(parsePlatform(text), { os: 'linux', architecture: 'amd64' }, text);
  }
  for (const text of ['linux/arm64', 'arm64', 'aarch64', 'linux/arm64/v8', 'linux/aarch64/8']) {
    assert.deepEqual(parsePlatform(text), { os: 'linux', architecture: 'arm64' }, text);
  }
});

test('platforms: everything else is refused with a sentence', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.constantFrom('__proto__', 'toString')), text => {
      try {
        assert.match(parsePlatform(text).architecture, /^(amd64|arm64)$/);
      } catch (error) {
        assert.ok(error instanceof OciSyntaxError);
        assert.equal(error.subject, 'platform');
      }
    }),
  );
  for (const text of [
    '',
    'linux',
    'linux/',
    '/amd64',
    'windows/amd64',
    'linux/arm/v7',
    'linux/386',
    'linux/amd64/v3',
    'linux/arm64/v9',
    'linux/arm64/',
    'linux/arm64/v8/x',
    'linux/constructor',
    ' linux/amd64',
  ]) {
    assert.throws(() => parsePlatform(text), OciSyntaxError, text);
  }
});

test('platforms: a formatted platform parses to the same platform', () => {
  for (const text of ['linux/amd64', 'linux/arm64']) {
    assert.equal(formatPlatform(parsePlatform(text)), text);
  }
  assert.equal(formatPlatform(platform('linux/arm/v7')), 'linux/arm/v7');
  assert.equal(goArchitecture('aarch64'), 'arm64');
  assert.equal(goArchitecture('riscv64'), 'riscv64');
  assert.equal(goArchitecture('constructor'), 'constructor');
});

// Source: containerd platforms, database.go and platforms.go.
const same = [
  ['linux/arm64', 'linux/arm64/v8'],
  ['linux/arm64', 'linux/arm64/8'],
  ['linux/arm64', 'linux/aarch64'],
  ['linux/amd64', 'linux/amd64/v1'],
  ['linux/amd64', 'linux/x86_64'],
  ['linux/arm/v7', 'linux/arm'],
  ['linux/arm/v7', 'linux/arm/7'],
  ['linux/s390x', 'linux/s390x'],
] as const;
const different = [
  ['linux/amd64', 'linux/arm64'],
  ['linux/amd64', 'windows/amd64'],
  ['linux/amd64', 'linux/amd64/v2'],
  ['linux/amd64', 'linux/386'],
  ['linux/arm64', 'linux/arm'],
  ['linux/arm64', 'linux/arm/v8'],
  ['linux/arm64', 'linux/arm64/v9'],
  ['linux/arm/v7', 'linux/arm/v6'],
  ['linux/ppc64le', 'linux/ppc64le/power9'],
  ['linux/amd64', ''],
] as const;

test('platforms: equal and different platforms, in both directions', () => {
  for (const [one, other] of same) {
    assert.ok(matchesPlatform(platform(one), platform(other)), `${one} ${other}`);
    assert.ok(matchesPlatform(platform(other), platform(one)), `${other} ${one}`);
  }
  for (const [one, other] of different) {
    assert.ok(!matchesPlatform(platform(one), platform(other)), `${one} ${other}`);
    assert.ok(!matchesPlatform(platform(other), platform(one)), `${other} ${one}`);
  }
});

test('platforms: the entry selected from an index', () => {
  assert.equal(selected('linux/amd64'), undefined);
  assert.equal(selected('linux/amd64', 'linux/arm64', 'windows/amd64', 'linux/386'), undefined);
  assert.equal(selected('linux/amd64', 'linux/arm64', 'linux/amd64'), 'linux/amd64');
  assert.equal(selected('linux/amd64', 'linux/amd64/v3', 'linux/amd64'), 'linux/amd64');
  assert.equal(selected('linux/amd64', 'linux/amd64/v3', 'linux/amd64/v1'), 'linux/amd64/v1');
  assert.equal(selected('linux/arm64', 'linux/arm64/v9', 'linux/arm64/v8'), 'linux/arm64/v8');
  assert.equal(selected('linux/arm64', 'linux/arm/v7', 'linux/arm64'), 'linux/arm64');
});

test('platforms: without an exact match, the next lower variant is selected, then the next higher one', () => {
  assert.equal(selected('linux/amd64', 'linux/amd64/v4', 'linux/amd64/v2'), 'linux/amd64/v2');
  assert.equal(
    selected('linux/amd64/v3', 'linux/amd64/v4', 'linux/amd64', 'linux/amd64/v2'),
    'linux/amd64/v2',
  );
  assert.equal(selected('linux/arm/v7', 'linux/arm/v5', 'linux/arm/v6'), 'linux/arm/v6');
  assert.equal(selected('linux/arm64', 'linux/arm64/v9.2', 'linux/arm64/v9'), 'linux/arm64/v9');
  assert.equal(selected('linux/amd64', 'linux/amd64/odd', 'linux/amd64/v2'), 'linux/amd64/v2');
  assert.equal(selected('linux/amd64', 'linux/amd64/odd'), 'linux/amd64/odd');
});

test('platforms: of entries for one platform the first is selected, and never an attestation', () => {
  const attestation = entry('linux/amd64', {
    annotations: { 'vnd.docker.reference.type': 'attestation-manifest' },
  });
  const unknown = entry('unknown/unknown');
  const [first, second] = [entry('linux/amd64'), entry('linux/amd64', { size: 2 })];
  const entries = [attestation, unknown, entry(undefined), first, second];
  assert.equal(selectPlatform(entries, platform('linux/amd64')), first);
  assert.equal(selectPlatform([attestation], platform('linux/amd64')), undefined);
  assert.equal(selectPlatform([unknown], platform('unknown/unknown')), undefined);
  assert.equal(listPlatforms(entries), 'linux/amd64');
  assert.equal(listPlatforms([attestation]), 'none listed');
  assert.deepEqual(entries.map(isAttestation), [true, true, false, false, false]);
  assert.ok(isAttestation(entry('unknown/amd64')));
  assert.ok(isAttestation(entry('linux/unknown')));
});

test('platforms: an exact entry is selected whenever there is one', () => {
  const offers = fc.constantFrom(
    ...new Set([...same.flat(), ...different.flat()].filter(text => text !== '')),
  );
  fc.assert(
    fc.property(offers, fc.array(offers), (wanted, offered) => {
      const entries = offered.map(text => entry(text));
      const exact = offered.some(text => matchesPlatform(platform(wanted), platform(text)));
      const found = selectPlatform(entries, platform(wanted));
      if (!exact) return;
      const at = offered.findIndex(text => matchesPlatform(platform(wanted), platform(text)));
      assert.equal(found, entries[at]);
    }),
  );
});

test('programs of a lower variant run, those of a higher one do not', () => {
  const arm = (variant?: string) => ({
    os: 'linux',
    architecture: 'arm',
    ...(variant && { variant }),
  });
  const platforms = [arm(), arm('v6'), arm('v5')];
  assert.deepEqual(platforms.toSorted(compareVariants), [arm('v5'), arm('v6'), arm()]);
  assert.ok(runsOn(arm(), arm('v6')));
  assert.ok(runsOn(arm('v7'), arm()));
  assert.ok(!runsOn(arm('v6'), arm()));
  assert.ok(!runsOn(arm(), { ...arm(), os: 'windows' }));
  assert.ok(!runsOn({ os: 'linux', architecture: 'amd64' }, { os: 'linux', architecture: '386' }));
});
