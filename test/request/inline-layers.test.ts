import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type FaultWorld, startFaultWorld, stopWithoutErrors } from '../faults/fault-world.ts';
import { assertApiFault } from '../faults/http-client.ts';
import { emptyLayer } from '../faults/scripted-upstream.ts';

let world: FaultWorld;
let containerImage: string;

before(async () => {
  world = await startFaultWorld({
    layers: { maxCount: 3, maxInlineBytes: '64 KiB', maxTarBytes: '1 MiB' },
  });
  containerImage = world.upstreams.relay.image('team/app').name;
});

after(async () => {
  await stopWithoutErrors(world);
  await world[Symbol.asyncDispose]();
});

const inline = (bytes: Buffer) => `data:${bytes.toString('base64')}`;
const withLayers = (...layers: object[]) => ({ containerConfig: { layers } });

/** Each with the image of the tests, unless it names one itself. */
const bad: readonly (readonly [title: string, body: object, status: number, message: RegExp])[] = [
  [
    'a layer without location',
    withLayers({}),
    400,
    /'containerConfig\.layers\[0\]\.location' is required/,
  ],
  [
    'a layer at no URL',
    withLayers({ location: 'ftp://example.com/x' }),
    400,
    /containerConfig\.layers\[0\]\.location must be an http\(s\) URL, or 'data:'/,
  ],
  [
    'a layer at a broken URL',
    withLayers({ location: 'http://' }),
    400,
    /containerConfig\.layers\[0\]\.location is not a URL/,
  ],
  [
    'a layer that is not base64',
    withLayers({ location: 'data:@@@' }),
    400,
    /containerConfig\.layers\[0\]\.location is not base64/,
  ],
  ['an empty layer', withLayers({ location: 'data:' }), 400, /layers\[0\] is not a gzip file/],
  [
    'a layer that is not gzip',
    withLayers({ location: inline(Buffer.alloc(1024, 'x')) }),
    400,
    /layers\[0\] is not a gzip file: pack it with 'tar -czf', and check/,
  ],
  [
    'a layer cut short',
    withLayers({ location: inline(emptyLayer.subarray(0, 20)) }),
    400,
    /layers\[0\] is not a gzip file/,
  ],
  [
    'a layer with a little behind it',
    withLayers({ location: inline(Buffer.concat([emptyLayer, Buffer.alloc(10)])) }),
    400,
    /layers\[0\] is not a gzip file only: it has bytes after its end/,
  ],
  [
    'a layer with much behind it',
    withLayers({ location: inline(Buffer.concat([emptyLayer, Buffer.alloc(40_000, 7)])) }),
    400,
    /layers\[0\] is not a gzip file/,
  ],
  [
    'a layer that is not tar',
    withLayers({ location: inline(gzipSync(Buffer.alloc(2000, 'no tar'))) }),
    400,
    /layers\[0\] is not a tar archive/,
  ],
  [
    'a layer of a few bytes',
    withLayers({ location: inline(gzipSync('x')) }),
    400,
    /layers\[0\] is not a tar archive/,
  ],
  [
    'the second layer is bad',
    withLayers({ location: inline(emptyLayer) }, { location: inline(gzipSync('x')) }),
    400,
    /layers\[1\] is not a tar/,
  ],
  [
    'a wrong gzipDigest',
    withLayers({ location: inline(emptyLayer), gzipDigest: `sha256:${'0'.repeat(64)}` }),
    400,
    /layers\[0\]\.gzipDigest is sha256:0000.*, but the layer has sha256:/,
  ],
  [
    'a wrong tarDigest',
    withLayers({ location: inline(emptyLayer), tarDigest: `sha256:${'1'.repeat(64)}` }),
    400,
    /layers\[0\]\.tarDigest is sha256:1111.*, but the layer has sha256:/,
  ],
  [
    'a wrong gzipSize',
    withLayers({ location: inline(emptyLayer), gzipSize: 7 }),
    400,
    /layers\[0\]\.gzipSize is 7, but the layer has \d+: .* leave the field out/,
  ],
  [
    'a gzipSize that is not a number',
    withLayers({ location: inline(emptyLayer), gzipSize: '7 bytes' }),
    400,
    /'containerConfig\.layers\[0\]\.gzipSize': expected a whole number/,
  ],
  [
    'too many layers',
    withLayers(...Array.from({ length: 4 }, () => ({ location: inline(emptyLayer) }))),
    400,
    /has 4 layers, at most 3 are allowed: pack several into one, or .* layers\.maxCount/,
  ],
  [
    'a layer that is too large',
    withLayers({ location: inline(Buffer.alloc(70_000)) }),
    413,
    /layers\[0\] is larger than the 65536 bytes allowed inside a request: .* layers\.maxInlineBytes/,
  ],
  [
    'a layer that unpacks to too much',
    withLayers({ location: inline(gzipSync(Buffer.alloc(2 ** 21))) }),
    413,
    /layers\[0\] unpacks to more than the 1048576 bytes allowed .* layers\.maxTarBytes/,
  ],
];

for (const [title, body, status, message] of bad) {
  test(`a request with ${title} is answered with ${status} and a sentence`, async () => {
    assertApiFault(await world.ask({ containerImage, ...body }), status, message);
  });
}
