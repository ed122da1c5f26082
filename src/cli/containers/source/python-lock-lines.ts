// One wheel on a line, as uv and poetry write them.
const wheelLine = /^[ \t]{0,9}\{ ?(?:url|file) = "([^"]{1,2000})\.whl"/;
const usable = /(?:^|\.)(?:any|(?:many)?linux[0-9_]*_(?:x86_64|aarch64))(?:\.|$)/;

/**
 * Returns a lock file of Python packages without the lines of wheels that no image of Linux can use, which are most of a large one:
 * those for other systems, C libraries and machines.
 */
export function withoutOtherWheels(text: string): string {
  return text
    .split('\n')
    .filter(line => {
      const name = wheelLine.exec(line)?.[1];
      return name === undefined || usable.test(name.slice(name.lastIndexOf('-') + 1));
    })
    .join('\n');
}
