import { readdirSync, readFileSync } from 'node:fs';

const intro = `# Decisions

One page for each decision that a reader may wonder about. \`npm run generate\` makes this list. A decision that a later one replaced is gone, and
its number is not used again.

`;

/** Returns the list of the pages in docs/adr, as Markdown. */
export function decisionsPage(directory: URL): string {
  const names = readdirSync(directory).filter(name => /^\d{4}-.*\.md$/.test(name));
  const lines = names.sort().map(name => {
    const text = readFileSync(new URL(name, directory), 'utf8');
    const [, number, title] = /^# (\d+)\. (.+)$/m.exec(text) ?? [];
    if (title === undefined) throw new Error(`${name} does not begin with its number and title`);
    return `- ${number}: [${title}](${name})`;
  });
  return `${intro}${lines.join('\n')}\n`;
}
