terraform {
  required_providers {
    local = { source = "hashicorp/local" }
  }
}

variable "directory" {
  type = string
}

variable "name" {
  type = string
}

variable "password" {
  type      = string
  sensitive = true
}

resource "local_sensitive_file" "login" {
  filename        = "${var.directory}/${var.name}.login"
  content         = "${var.name}:${var.password}"
  file_permission = "0600"
}

resource "terraform_data" "ready" {
  input = local_sensitive_file.login.filename
}

output "login" {
  value = terraform_data.ready.output
}
