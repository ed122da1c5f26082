/** An agent that steps of a build can use. */
export interface SshAgent {
  /** Opens a connection. `signal` aborts when the builder closes it. */
  connect(signal: AbortSignal): Promise<AgentConnection>;
}

/** A connection to an agent. */
export interface AgentConnection extends Disposable {
  /** Returns the response to a message. Both are without their length. */
  respond(message: Buffer): Promise<Buffer>;
}

/** Numbers of messages. Source: draft-miller-ssh-agent, section 5.1. */
export const agentMessage = {
  failure: 5,
  requestIdentities: 11,
  identitiesAnswer: 12,
  signRequest: 13,
  signResponse: 14,
} as const;

/** The response to a message that the agent refuses. */
export const refusal = Buffer.from([agentMessage.failure]);

// The limit of OpenSSH's agent is 256 KiB. A request to sign has the public key and some hundred bytes.
const mostBytes = 64 * 1024;
const prefixBytes = 4;

/**
 * Yields the messages in a stream of bytes. Throws an `Error` for a message that is too long or truncated. A message
 * takes its own length of memory, however small its pieces are.
 */
export async function* agentMessagesIn(
  chunks: AsyncIterable<Uint8Array>,
  limit = mostBytes,
): AsyncGenerator<Buffer> {
  let part = Buffer.alloc(prefixBytes);
  let filled = 0;
  let isPrefix = true;
  for await (const chunk of chunks) {
    let rest = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    while (rest.length > 0) {
      const copied = rest.copy(part, filled);
      filled += copied;
      rest = rest.subarray(copied);
      if (filled < part.length) break;
      if (isPrefix) {
        const length = part.readUInt32BE();
        if (length < 1 || length > limit) throw new Error(`A message of ${length} bytes`);
        part = Buffer.alloc(length);
      } else {
        yield part;
        part = Buffer.alloc(prefixBytes);
      }
      isPrefix = !isPrefix;
      filled = 0;
    }
  }
  if (filled > 0 || !isPrefix) throw new Error('The stream ended within a message');
}
