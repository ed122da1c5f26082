import { once } from 'node:events';
import { connect } from 'node:net';
import { status } from '@grpc/grpc-js';
import { Semaphore } from '../../../foundation/semaphore.ts';
import { SSH } from '../../gen/moby/sshforward/v1/ssh_pb.js';
import { GrpcError, type Handler, streamHandler, unaryHandler } from '../../grpc/grpc-server.ts';
import { type SshKey, WireReader, wireStrings, wireUint32 } from './ssh-key.ts';

/** An agent that steps of a build can use. */
export interface SshAgent {
  /** Opens a connection. `signal` aborts when the builder closes it. */
  connect(signal: AbortSignal): Promise<AgentConnection>;
}

/** A connection to an agent. */
interface AgentConnection extends Disposable {
  /** Returns the response to a message. Both are without their length. */
  respond(message: Buffer): Promise<Buffer>;
}

/** Numbers of messages. Source: draft-miller-ssh-agent, section 5.1. */
const agentMessage = {
  failure: 5,
  requestIdentities: 11,
  identitiesAnswer: 12,
  signRequest: 13,
  signResponse: 14,
} as const;

/** The response to a message that the agent refuses. */
const failureResponse = Buffer.from([agentMessage.failure]);

// The limit of OpenSSH's agent is 256 KiB. A request to sign has the public key and some hundred bytes.
const mostMessageBytes = 64 * 1024;
const prefixBytes = 4;

/**
 * Yields the messages in a stream of bytes. Throws an `Error` for a message that is too long or truncated. A message
 * takes its own length of memory, however small its pieces are.
 */
export async function* agentMessagesIn(
  chunks: AsyncIterable<Uint8Array>,
  limit = mostMessageBytes,
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

// In the whole process: signatures are computed on the threads that also read files, and a step may request any number of them.
const signingTurns = new Semaphore({ limit: 1 });

/** Returns an agent that has these keys: it lists them and signs with them, and refuses everything else. */
export function keyAgent(keys: readonly SshKey[]): SshAgent {
  const respond = async (message: Buffer): Promise<Buffer> => {
    switch (message[0]) {
      case agentMessage.requestIdentities:
        return identitiesOf(keys);
      case agentMessage.signRequest:
        return (await signedResponse(keys, message.subarray(1))) ?? failureResponse;
      default:
        return failureResponse;
    }
  };
  const connection: AgentConnection = { respond, [Symbol.dispose]() {} };
  return { connect: async () => connection };
}

function identitiesOf(keys: readonly SshKey[]): Buffer {
  return Buffer.concat([
    Buffer.from([agentMessage.identitiesAnswer]),
    wireUint32(keys.length),
    // The comment of a key names a person, and nothing here requires it.
    ...keys.map(({ publicKey }) => wireStrings(publicKey, '')),
  ]);
}

/** Returns the response to a request to sign; undefined for a request that is invalid or cannot be met. */
async function signedResponse(
  keys: readonly SshKey[],
  request: Buffer,
): Promise<Buffer | undefined> {
  try {
    const reader = new WireReader(request);
    const [publicKey, data, flags] = [reader.string(), reader.string(), reader.uint32()];
    const key = keys.find(one => one.publicKey.equals(publicKey));
    const signature = key && (await signingTurns.run(() => key.sign(data, flags)));
    if (!signature) return undefined;
    return Buffer.concat([Buffer.from([agentMessage.signResponse]), wireStrings(signature)]);
  } catch {
    return undefined;
  }
}

// It may have far more keys than a build gets. The limit of OpenSSH.
const longestResponse = 256 * 1024;
const passedRequests: readonly unknown[] = [
  agentMessage.requestIdentities,
  agentMessage.signRequest,
];

/**
 * Returns the agent at a Unix socket of this machine. It lists its keys and signs with them. Other messages, such as
 * those that add or remove keys, do not reach it.
 */
export function socketAgent(path: string): SshAgent {
  return {
    async connect(signal) {
      const socket = connect({ path, signal });
      // Whoever reads or writes gets the error too.
      socket.on('error', () => {});
      await once(socket, 'connect');
      const responses = agentMessagesIn(socket, longestResponse);
      return {
        async respond(message) {
          if (!passedRequests.includes(message[0])) return failureResponse;
          socket.write(wireStrings(message));
          const { value } = await responses.next();
          if (value) return value;
          throw new Error('The agent closed the connection');
        },
        [Symbol.dispose]: () => void socket.destroy(),
      };
    },
  };
}

// BuildKit's name for the agent of a mount without an id.
const defaultId = 'default';

/** What the steps of one build may do. `ssh` sends three or four messages on its one connection. */
const mostOfBuild = { connections: 32, messages: 20_000 } as const;

/** Connects the steps of a build with the agents, by their ids. */
export function sshHandlers(agents: ReadonlyMap<string, SshAgent>): Handler[] {
  let connections = 0;
  let messages = 0;

  const agentOf = (id: string | undefined): SshAgent => {
    const named = id || defaultId;
    const agent = agents.get(named);
    if (agent) return agent;
    throw new GrpcError(status.NOT_FOUND, `There is no SSH agent '${named}'`);
  };

  return [
    unaryHandler(SSH.method.checkAgent, async ({ ID }) => {
      agentOf(ID);
      return {};
    }),

    streamHandler(SSH.method.forwardAgent, async call => {
      const agent = agentOf(call.header('buildkit.ssh.id')[0]);
      if (connections >= mostOfBuild.connections) {
        throw tooMany(`has ${mostOfBuild.connections} connections to SSH agents`);
      }
      connections += 1;
      try {
        using connection = await agent.connect(call.signal);
        const bytes = async function* () {
          for await (const { data } of call.messages) yield data;
        };
        for await (const message of agentMessagesIn(bytes())) {
          messages += 1;
          if (messages > mostOfBuild.messages) {
            throw tooMany(`has sent ${mostOfBuild.messages} messages to SSH agents`);
          }
          await call.send({ data: wireStrings(await connection.respond(message)) });
        }
      } finally {
        connections -= 1;
      }
    }),
  ];
}

function tooMany(what: string): GrpcError {
  return new GrpcError(status.RESOURCE_EXHAUSTED, `The build ${what}, which is the limit`);
}
