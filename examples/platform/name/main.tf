terraform {
  required_providers {
    random = { source = "hashicorp/random" }
  }
}

variable "name" {
  type = string
}

resource "random_pet" "suffix" {
  length = 1
}

resource "terraform_data" "name" {
  input = "${var.name}-${random_pet.suffix.id}"
}

output "name" {
  value = terraform_data.name.output
}
