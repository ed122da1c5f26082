import { status } from '@grpc/grpc-js';
import { SSH } from '../gen/moby/sshforward/v1/ssh_pb.js';
import { GrpcError, type Handler, streamHandler, unaryHandler } from '../grpc/grpc-server.ts';
import { agentMessagesIn, type SshAgent } from './ssh/ssh-agent.ts';
import { wireStrings } from './ssh/ssh-wire.ts';

// BuildKit's name for the agent of a mount without an id.
const defaultId = 'default';

/** What the steps of one build may do. `ssh` sends three or four messages on its one connection. */
const most = { connections: 32, messages: 20_000 } as const;

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
      if (connections >= most.connections) {
        throw exhausted(`has ${most.connections} connections to SSH agents`);
      }
      connections += 1;
      try {
        using connection = await agent.connect(call.signal);
        const bytes = async function* () {
          for await (const { data } of call.messages) yield data;
        };
        for await (const message of agentMessagesIn(bytes())) {
          messages += 1;
          if (messages > most.messages) {
            throw exhausted(`has sent ${most.messages} messages to SSH agents`);
          }
          await call.send({ data: wireStrings(await connection.respond(message)) });
        }
      } finally {
        connections -= 1;
      }
    }),
  ];
}

function exhausted(what: string): GrpcError {
  return new GrpcError(status.RESOURCE_EXHAUSTED, `The build ${what}, which is the limit`);
}
