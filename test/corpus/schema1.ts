import { generateKeyPairSync, sign } from 'node:crypto';
import { baseLayer, noteLayer } from './base.ts';
import { contentOf, mediaTypes } from './content.ts';
import { created, type Family } from './image.ts';

/** The format of Docker before 1.10; only a registry that allows schema 1 takes it. */
export const schema1: Family = {
  latest: async () => {
    const layers = [await baseLayer(), await noteLayer('schema1')].reverse();
    const ids = ['b'.repeat(64), 'a'.repeat(64)];
    const payload = JSON.stringify(
      {
        schemaVersion: 1,
        name: 'corpus/schema1',
        tag: 'latest',
        architecture: 'amd64',
        fsLayers: layers.map(layer => ({ blobSum: layer.content.digest })),
        history: ids.map((id, at) => {
          const parent = ids[at + 1];
          const image = { id, ...(parent === undefined ? {} : { parent }), created };
          const run = { config: { Cmd: ['/bin/sh'] }, architecture: 'amd64', os: 'linux' };
          return { v1Compatibility: JSON.stringify({ ...image, ...run }) };
        }),
      },
      null,
      3,
    );
    // The digest is that of the payload: the signature is made with a new key each time.
    const unsigned = contentOf(mediaTypes.schema1, payload);
    const signed = Buffer.from(signPretty(payload));
    return {
      root: { ...unsigned, size: signed.length, read: () => [signed] },
      children: [],
      blobs: layers.map(layer => layer.content),
    };
  },
};

/** Puts a JSON web signature into the document. Source: libtrust, JSONSignature.PrettySignature. */
function signPretty(payload: string): string {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const encode = (text: string) => Buffer.from(text).toString('base64url');
  const tail = '\n}';
  const head = payload.slice(0, -tail.length);
  const protectedHeader = encode(
    JSON.stringify({
      formatLength: Buffer.byteLength(head),
      formatTail: encode(tail),
      time: created,
    }),
  );
  const signed = Buffer.from(`${protectedHeader}.${encode(payload)}`);
  const signature = sign('sha256', signed, { key: privateKey, dsaEncoding: 'ieee-p1363' });
  const signatures = [
    {
      header: { jwk: publicKey.export({ format: 'jwk' }), alg: 'ES256' },
      signature: signature.toString('base64url'),
      protected: protectedHeader,
    },
  ];
  return `${head},\n   "signatures": ${JSON.stringify(signatures)}${tail}`;
}
