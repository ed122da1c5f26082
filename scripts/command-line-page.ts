import { clientCommands } from '../src/cli/client/client-commands.ts';
import {
  type Command,
  type CommandNode,
  exitCodes,
  exitsOf,
  followExits,
  isGroup,
} from '../src/cli/command/command.ts';
import { descriptionOf, formOf, loadAll, usageOf } from '../src/cli/command/run-command-line.ts';
import { commands as declared } from '../src/cli/commands.ts';

/** Returns the page about the command line, made from the declarations of the commands. */
export async function commandLinePage(): Promise<string> {
  const commands = await loadAll(declared);
  return `# Command line

\`npx sluice COMMAND --help\` shows the same as this page, which \`npm run generate\` makes from the commands.

| command | what it does |
|---|---|
${Object.entries(commands)
  .map(([name, { summary }]) => `| [\`${name}\`](#sluice-${name}) | ${cell(summary)} |`)
  .join('\n')}

## Server or data directory

| commands | work on |
|---|---|
| \`request\`, \`build\`, \`inspect\`, \`files\`, \`logs\`, \`open\`, \`cancel\`, \`repositories\` | the server at \`--server\`, then \`SLUICE_SERVER\`, then \`http://127.0.0.1:9090\` |
| \`user\`, \`token\`, \`workspace\`, \`credentials\`, \`audit\` | the server at \`--server\`; the data directory at \`--data\`; the server at \`SLUICE_SERVER\`; the data directory at \`SLUICE_DATA\`, then \`./data\` |
| \`migrate\` | the places in \`--from\` and \`--to\` |
| \`replicas\` | the database at \`SLUICE_DATABASE\` |
| \`gc\`, \`verify\`, \`backup\`, \`restore\`, \`rotate-key\` | the data directory at \`--data\`, then \`SLUICE_DATA\`, then \`./data\` |

An option wins over the environment, the environment over the configuration file (\`--config\`, \`SLUICE_CONFIG\`), and the
file over the default. Commands on a data directory can run beside the server unless their help says otherwise.

\`HTTPS_PROXY\`, \`HTTP_PROXY\` and \`NO_PROXY\` apply to every server except one on the same machine.

The package \`sluice-cli\` has the commands that need only a server: ${Object.keys(clientCommands)
    .map(name => `\`${name}\``)
    .join(', ')}.

## Logins

| variable | names | read by |
|---|---|---|
| \`SLUICE_TOKEN\` | a user of the workflow platform, by an access token | commands that make images or look into them, \`builds\`, \`cancel\`, \`containers\`; \`repositories\`, \`token\` and \`credentials\` for what belongs to the user |
| \`SLUICE_ACCOUNT\` | an account of the configuration, as \`name:password\` | \`containers\`, \`repositories\`; \`user\`, \`token\`, \`workspace\`, \`credentials\` and \`audit\` when they work on a server |

\`logs\` needs no login: whoever knows the id of a build may read its log. Commands on a data directory act as its owner.

## Output

The result goes to standard output; warnings, progress and errors go to standard error. \`--json\` prints the result as
JSON. Lists are tables with a header row.

| exit code | meaning |
|---|---|
${Object.entries({ ...exitCodes, 130: followExits[130], 141: followExits[141] })
  .map(([code, meaning]) => `| ${code} | ${meaning} |`)
  .join('\n')}

A command whose exit codes mean something more specific lists them below.

## Completion

| shell | line in its start file |
|---|---|
| bash | \`source <(sluice completion bash)\` |
| zsh | \`source <(sluice completion zsh)\`, after \`compinit\` |
| fish | \`sluice completion fish \\| source\` |

${Object.entries(commands)
  .map(([name, node]) => chapter(name, node))
  .join('\n')}`;
}

function chapter(name: string, node: CommandNode): string {
  const head = `## sluice ${name}\n\n${node.summary}.\n`;
  if (!isGroup(node)) return `${head}\n${details(name, node)}`;
  const actions = Object.entries(node.actions).map(
    ([action, command]) =>
      `### sluice ${name} ${action}\n\n${command.summary}.\n\n${details(`${name} ${action}`, command)}`,
  );
  return `${head}\n${actions.join('\n')}`;
}

function details(name: string, command: Command): string {
  const options = Object.entries(command.options).map(
    ([option, declared]) =>
      `| \`${cell(formOf(option, declared))}\` | ${cell(descriptionOf(declared))} |`,
  );
  const variables = Object.entries(command.variables ?? {}).map(
    ([variable, meaning]) => `| \`${variable}\` | ${cell(meaning)} |`,
  );
  const exits = command.exits
    ? exitsOf(command).map(([code, meaning]) => `| ${code} | ${cell(meaning)} |`)
    : [];
  const parts = [
    `\`\`\`\n${usageOf(name, command).replace(/^Usage: | {7}/gm, '')}\n\`\`\``,
    tableOf(['option', 'meaning'], options),
    tableOf(['variable', 'meaning'], variables),
    tableOf(['exit code', 'meaning'], exits),
  ];
  return `${parts.filter(part => part !== '').join('\n\n')}\n`;
}

function tableOf(header: readonly string[], rows: readonly string[]): string {
  if (rows.length === 0) return '';
  return [`| ${header.join(' | ')} |`, `|${'---|'.repeat(header.length)}`, ...rows].join('\n');
}

/** Text in a cell of a table. */
function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}
