import { CommandError, type Option, text, type Values } from './command.ts';

/** The option of every command that talks to a server. */
export const serverOption: Option = {
  type: 'string',
  value: 'URL',
  description: 'The server; default: SLUICE_URL, else http://127.0.0.1:9090',
};

export const jsonOption: Option = {
  type: 'boolean',
  description: 'Print the whole answer as JSON',
};

const defaultServer = 'http://127.0.0.1:9090';

/** Sends a JSON body and returns the JSON answer. Throws {@link CommandError} with the server's words. */
export async function post(values: Values, path: string, body: object): Promise<unknown> {
  const server = text(values, 'server') ?? process.env.SLUICE_URL ?? defaultServer;
  if (!URL.canParse(path, server)) throw new CommandError(`'${server}' is not a URL`, 2);
  let answer: Response;
  try {
    answer = await fetch(new URL(path, server), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new CommandError(
      `No answer from ${server} (${why}): is it running? Start it with 'npm start', or name it with --server`,
    );
  }
  const content = await answer.text();
  const value = parse(content);
  if (answer.ok && value !== undefined) return value;
  const message = (value as { message?: unknown } | undefined)?.message;
  throw new CommandError(
    typeof message === 'string' ? message : `${server} answered ${answer.status}: is it Sluice?`,
  );
}

function parse(content: string): unknown {
  try {
    return JSON.parse(content);
  } catch {
    return undefined;
  }
}
