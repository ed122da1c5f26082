import { z } from 'zod';
import { type JsonShape, parseShaped } from '../../foundation/text/index.ts';

// Source: reference service, section 1.9.

/** A message that Sluice sends over a pairing socket. */
export type SentMessage =
  | {
      readonly '@type': 'pairing-response';
      readonly msgId: string;
      readonly pairingId: string;
      /** DER of the SubjectPublicKeyInfo, base64. */
      readonly publicKey: string;
    }
  | {
      readonly '@type': 'proxy-http-request';
      readonly msgId: string;
      readonly method: string;
      readonly uri: string;
      /** The whole `Authorization` value. */
      readonly auth: string | undefined;
      readonly body: string | undefined;
      readonly headers: Readonly<Record<string, readonly string[]>>;
    }
  | { readonly '@type': 'pairing-heartbeat'; readonly msgId: string };

// The body of a response is one JSON string, with every quote in it escaped.
const messageShape: JsonShape = { maxValues: 10_000, maxDepth: 8, maxEscapes: 1_000_000 };

const headerValues = z.union([z.string().transform(value => [value]), z.array(z.string())]);

const receivedSchema = z.discriminatedUnion('@type', [
  z.object({
    '@type': z.literal('proxy-http-response'),
    msgId: z.string(),
    status: z.number().int().min(100).max(599),
    body: z.string().nullish(),
    headers: z.record(z.string(), headerValues).nullish(),
  }),
  z.object({ '@type': z.literal('pairing-heartbeat'), msgId: z.string() }),
]);

/** A message that a platform sends over a pairing socket. */
export type ReceivedMessage = z.output<typeof receivedSchema>;

/** Returns the message; undefined if it is malformed or of an unknown type. */
export function readMessage(text: string): ReceivedMessage | undefined {
  try {
    return receivedSchema.safeParse(parseShaped(Buffer.from(text), messageShape)).data;
  } catch {
    return undefined;
  }
}
