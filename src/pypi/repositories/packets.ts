import { pauseTurn } from '../../foundation/pause-turn.ts';

/** A response that no git server gives. */
export class PacketProblem extends Error {}

/** One part of a response of a git server; without bytes, it separates others. */
export interface Packet {
  readonly kind: 'data' | 'end' | 'delimiter';
  /** Valid until the next packet is asked for. */
  readonly bytes: Buffer;
}

/** What a response may have. */
export interface PacketLimits {
  readonly maxBytes: number;
  readonly maxPackets: number;
  /** What a message calls that which is too large. */
  readonly what: string;
}

interface Chunks {
  read(): Promise<{ readonly bytes: Uint8Array; release(): void } | null>;
}

const longestPacket = 65_520;
const packetsAtOnce = 128;
const noBytes = Buffer.alloc(0);

/** Yields the packets of a response. Source: git, `gitprotocol-common`. */
export async function* readPackets(
  source: Chunks,
  { maxBytes, maxPackets, what }: PacketLimits,
  signal: AbortSignal,
): AsyncGenerator<Packet> {
  let rest: Buffer = noBytes;
  let total = 0;
  let packets = 0;
  for (;;) {
    const chunk = await source.read();
    if (chunk === null) break;
    rest = Buffer.concat([rest, chunk.bytes]);
    total += chunk.bytes.length;
    chunk.release();
    if (total > maxBytes) throw new PacketProblem(`${what} more than ${maxBytes} bytes`);
    let at = 0;
    while (rest.length - at >= 4) {
      const digits = rest.toString('latin1', at, at + 4);
      if (!/^[0-9a-f]{4}$/.test(digits)) throw new PacketProblem(unexpectedResponse);
      const length = Number.parseInt(digits, 16);
      if (length <= 1) yield { kind: length === 0 ? 'end' : 'delimiter', bytes: noBytes };
      else if (length <= 4 || length > longestPacket) throw new PacketProblem(unexpectedResponse);
      else if (rest.length - at < length) break;
      else yield { kind: 'data', bytes: rest.subarray(at + 4, at + length) };
      at += Math.max(length, 4);
      packets += 1;
      if (packets > maxPackets) throw new PacketProblem(`${what} more than ${maxPackets} lines`);
      if (packets % packetsAtOnce === 0) {
        await pauseTurn();
        signal.throwIfAborted();
      }
    }
    rest = rest.subarray(at);
    await pauseTurn();
    signal.throwIfAborted();
  }
  if (rest.length > 0) throw new PacketProblem('ends too early');
}

export const unexpectedResponse = 'does not answer as git does';
