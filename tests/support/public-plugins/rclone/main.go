// rclone, a volume plugin (`serve docker`), with local directories alone: its other backends are a hundred more modules.
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/mount2"
	_ "github.com/rclone/rclone/cmd/serve"
	_ "github.com/rclone/rclone/cmd/serve/docker"
)

func main() { cmd.Main() }
