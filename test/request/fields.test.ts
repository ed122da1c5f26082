import { after, before, test } from 'node:test';
import {
  type FaultWorld,
  postJson,
  startFaultWorld,
  stopWithoutErrors,
} from '../faults/fault-world.ts';
import { assertApiFault } from '../faults/http-client.ts';

let world: FaultWorld;
let containerImage: string;

before(async () => {
  world = await startFaultWorld();
  containerImage = world.upstreams.relay.image('team/app').name;
});

after(async () => {
  await stopWithoutErrors(world);
  await world[Symbol.asyncDispose]();
});

const base64 = Buffer.from('FROM alpine').toString('base64');

/** Each with the image of the tests, unless it names one itself. */
const bad: readonly (readonly [title: string, body: object, status: number, message: RegExp])[] = [
  [
    'nothing to serve',
    { containerImage: undefined },
    400,
    /'containerFile' .*is required when 'containerImage' is omitted, so send one/,
  ],
  [
    'a field with a typing error',
    { containerImage: undefined, containerimage: 'alpine' },
    400,
    /is omitted.*'containerimage' is not a field of this API.*: did you mean 'containerImage'\?/,
  ],
  [
    'null for everything',
    { containerImage: null, containerFile: null },
    400,
    /'containerFile' .*is required/,
  ],
  ['an empty image name', { containerImage: '' }, 400, /'containerFile' .*is required/],
  [
    'image and file',
    { containerFile: base64 },
    400,
    /'containerImage' must be omitted when 'containerFile' is given: send one/,
  ],
  [
    'image and conda file',
    { condaFile: base64 },
    400,
    /'containerImage' must be omitted when 'condaFile'/,
  ],
  [
    'image and packages',
    { packages: { type: 'CONDA' } },
    400,
    /'containerImage' must be omitted when 'packages'/,
  ],
  [
    'file and packages',
    { containerImage: undefined, containerFile: base64, packages: { type: 'CONDA' } },
    400,
    /'packages' must be omitted when 'containerFile'/,
  ],
  [
    'a file that is not base64',
    { containerImage: undefined, containerFile: 'FROM alpine' },
    400,
    /'containerFile' is not base64: encode/,
  ],
  [
    'a conda file that is not base64',
    { containerImage: undefined, condaFile: '!!' },
    400,
    /'condaFile' is not base64: encode/,
  ],
  ['freeze without repository', { freeze: true }, 400, /'freeze' requires 'buildRepository': name/],
  [
    'sif without freeze',
    { format: 'sif', buildRepository: 'r.example.com/a/b' },
    400,
    /'format: sif' requires 'freeze: true'/,
  ],
  [
    'a build repository with a tag',
    { buildRepository: 'r.example.com/a/b:1' },
    400,
    /'buildRepository' must be a repository without a tag/,
  ],
  [
    'a build repository without a path',
    { buildRepository: 'team' },
    400,
    /'buildRepository' is incomplete: write registry\/path/,
  ],
  [
    'a build repository in upper case',
    { buildRepository: 'r.example.com/A/b' },
    400,
    /'buildRepository': .*lower case/,
  ],
  [
    'a cache repository with a digest',
    { cacheRepository: `r.example.com/a/b@sha256:${'0'.repeat(64)}` },
    400,
    /'cacheRepository' must be a repository/,
  ],
  ['an SSH key without its list', { ssh: { default: 'a2V5' } }, 400, /'ssh\.default'.* array/],
  [
    'more secrets than a request may have',
    { secrets: Object.fromEntries(Array.from({ length: 21 }, (_, at) => [`s${at}`, 'YQ=='])) },
    400,
    /'secrets' has 21 entries, at most 20 are allowed/,
  ],
  [
    'a secret above the limit',
    { secrets: { token: 'YWFh'.repeat(16_385) } },
    400,
    /'secrets\.token' is longer than 65536 characters of base64/,
  ],
  ['SSH keys for an image', { ssh: { default: ['a2V5'] } }, 400, /'ssh' is for builds/],
  ['a day that no month has', { timestamp: '2026-02-30T12:00:00Z' }, 400, /'timestamp' is not/],
  ['a wrong timestamp', { timestamp: 'yesterday' }, 400, /'timestamp' is not an ISO 8601/],
  ['an image in upper case', { containerImage: 'Alpine' }, 400, /'containerImage': .*lower case/],
  [
    'an image with ..',
    { containerImage: 'r.example.com/../app' },
    400,
    /'containerImage': Invalid image name/,
  ],
  ['an image with a space', { containerImage: 'al pine' }, 400, /'containerImage': .*space/],
  [
    'an image of 300 characters',
    { containerImage: `r.example.com/${'a'.repeat(300)}` },
    400,
    /'containerImage': .*longer than 255/,
  ],
  [
    'an image with a protocol',
    { containerImage: 'https://r.example.com/app' },
    400,
    /'containerImage': .*remove the protocol/,
  ],
  [
    'an image with half a digest',
    { containerImage: 'alpine@sha256:abc' },
    400,
    /'containerImage': .*not a digest/,
  ],
  [
    'an image with a port of no network',
    { containerImage: 'r.example.com:99999/app' },
    400,
    /'containerImage': .*not a registry host .write host/,
  ],
  [
    'an unknown platform',
    { containerPlatform: 'windows/amd64' },
    400,
    /'containerPlatform': .*use linux\/amd64 or linux\/arm64/,
  ],
  [
    'an unsupported architecture',
    { containerPlatform: 'linux/s390x' },
    400,
    /'containerPlatform': .*use linux\/amd64/,
  ],
  [
    'a platform the image has not',
    { containerPlatform: 'linux/arm64' },
    400,
    /has no image for linux\/arm64; it has: linux\/amd64/,
  ],
  ['an image as a number', { containerImage: 5 }, 400, /'containerImage': .*expected string/],
  ['a config as a list', { containerConfig: [] }, 400, /'containerConfig': .*expected object/],
  [
    'an entrypoint as text',
    { containerConfig: { entrypoint: 'sh' } },
    400,
    /'containerConfig\.entrypoint': .*expected array/,
  ],
  [
    'a number in env',
    { containerConfig: { env: ['A=1', 2] } },
    400,
    /'containerConfig\.env\[1\]': .*expected string/,
  ],
  [
    'env without a value',
    { containerConfig: { env: ['A=1', 'B'] } },
    400,
    /'containerConfig\.env\[1\]' is not of the form NAME=value/,
  ],
  [
    'env without a name',
    { containerConfig: { env: ['=1'] } },
    400,
    /'containerConfig\.env\[0\]' is not of the form/,
  ],
  [
    'a NUL character',
    { containerConfig: { workingDir: '/a\0b' } },
    400,
    /'containerConfig\.workingDir' has a NUL/,
  ],
  ['freeze as text', { freeze: 'true' }, 400, /'freeze': .*expected boolean/],
  ['an unknown format', { format: 'zip' }, 400, /'format': /],
  ['an unknown name strategy', { nameStrategy: 'random' }, 400, /'nameStrategy': /],
  [
    'a workspace that is not a number',
    { platformWorkspaceId: 'mine' },
    400,
    /'platformWorkspaceId': expected a whole number, or its digits/,
  ],
  [
    'half a workspace',
    { platformWorkspaceId: 1.5 },
    400,
    /'platformWorkspaceId': expected a whole number/,
  ],
  [
    'a negative workspace',
    { platformWorkspaceId: -1 },
    400,
    /'platformWorkspaceId': expected a whole number/,
  ],
  [
    'a spack build',
    { containerImage: undefined, spackFile: base64 },
    400,
    /'spackFile': Spack is deprecated .* 'packages'/,
  ],
];

for (const [title, body, status, message] of bad) {
  test(`a request with ${title} is answered with ${status} and a sentence`, async () => {
    assertApiFault(await world.ask({ containerImage, ...body }), status, message);
  });
}

test('the deprecated endpoint knows neither packages nor nameStrategy', async () => {
  for (const [field, value] of [
    ['packages', { type: 'CONDA' }],
    ['nameStrategy', 'none'],
  ] as const) {
    const reply = await postJson(`${world.sluice.url}/container-token`, {
      containerImage,
      [field]: value,
    });
    assertApiFault(
      reply,
      400,
      new RegExp(`'${field}' is not supported by /container-token: use POST`),
    );
  }
});
